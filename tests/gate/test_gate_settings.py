from __future__ import annotations

import pytest

from samebits.errors import GateError, InputError
from samebits.gate.settings import accepted_from_json, check, conflicts
from samebits.pins import Range, Values

GATE = {
    "max_num_seqs": {"min": 1, "max": 8},
    "tensor_parallel_size": [1],
    "kv_cache_dtype": ["auto", "bfloat16"],
    "quantization": [],
    "enable_lora": [False],
}
GOOD = {
    "max_num_seqs": 8,
    "tensor_parallel_size": 1,
    "kv_cache_dtype": "auto",
    "quantization": None,
    "enable_lora": False,
}


@pytest.fixture
def accepted():
    return accepted_from_json(GATE, where="gate.engine")


def test_gate_table_is_read(accepted):
    assert accepted["max_num_seqs"] == Range(1, 8)
    assert accepted["kv_cache_dtype"] == Values(("auto", "bfloat16"))


def test_certified_settings_pass(accepted):
    check(GOOD, accepted, where="engine")
    assert conflicts(GOOD, accepted, where="engine") == []


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("max_num_seqs", 9, "9"),
        ("max_num_seqs", 0, "0"),
        ("max_num_seqs", True, "True"),
        ("max_num_seqs", "8", "'8'"),
        ("max_num_seqs", 8.0, "8.0"),
        ("max_num_seqs", float("nan"), "nan"),
        ("max_num_seqs", None, "None"),
        ("tensor_parallel_size", 2, "2"),
        ("tensor_parallel_size", True, "True"),
        ("tensor_parallel_size", "1", "'1'"),
        ("kv_cache_dtype", "fp8", "'fp8'"),
        ("kv_cache_dtype", ["auto"], "['auto']"),
        ("quantization", "fp8", "'fp8'"),
        ("quantization", False, "False"),
        ("enable_lora", True, "True"),
        ("enable_lora", 0, "0"),
        ("enable_lora", None, "None"),
    ],
)
def test_any_other_value_is_refused(accepted, name, value, shown):
    (error,) = conflicts({**GOOD, name: value}, accepted, where="engine")
    assert error.to_dict() == {
        "error": "refused",
        "field": f"engine.{name}",
        "found": shown,
        "accepted": str(accepted[name]),
        "next_step": "Use an accepted value; this row has not been certified with any other.",
    }


def test_unknown_setting_is_refused_with_its_nearest_neighbour(accepted):
    with pytest.raises(GateError) as caught:
        check({**GOOD, "tensor_paralel_size": 1}, accepted, where="engine")
    assert str(caught.value) == (
        "engine.tensor_paralel_size: found an unknown setting; accepted: enable_lora, kv_cache_dtype, max_num_seqs, "
        "quantization, tensor_parallel_size. Did you mean 'tensor_parallel_size'?"
    )


def test_unknown_setting_like_nothing_is_to_be_removed(accepted):
    (error,) = conflicts({**GOOD, "zzz": 1}, accepted, where="engine")
    assert error.next_step == "Remove it."


def test_missing_setting_is_refused(accepted):
    settings = {name: value for name, value in GOOD.items() if name != "quantization"}
    with pytest.raises(GateError) as caught:
        check(settings, accepted, where="engine")
    assert str(caught.value) == (
        "engine.quantization: found nothing; accepted: unset. State it: the gate fills in no defaults."
    )


def test_all_conflicts_are_named_at_once(accepted):
    with pytest.raises(GateError) as caught:
        check(
            {"max_num_seqs": 9, "lora": True, "kv_cache_dtype": "auto", "quantization": None}, accepted, where="engine"
        )
    assert caught.value.field == "engine.max_num_seqs"
    assert caught.value.next_step == (
        "Use an accepted value; this row has not been certified with any other. "
        "3 more conflict(s): engine.lora, engine.tensor_parallel_size, engine.enable_lora."
    )


def test_empty_gate_accepts_no_setting():
    (error,) = conflicts({"threads": 1}, {}, where="engine")
    assert error.accepted == "no settings at all"


@pytest.mark.parametrize("data", [1, {"min": 1}, {"min": 2, "max": 1}, {"values": [1]}, [None], [float("nan")], "auto"])
def test_malformed_gate_table_is_the_rows_fault(data):
    with pytest.raises(InputError) as caught:
        accepted_from_json({"threads": data}, where="gate.engine")
    assert caught.value.field == "gate.engine.threads"
    assert caught.value.found == repr(data)
    assert caught.value.next_step == "Mend the row file."
