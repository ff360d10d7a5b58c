from __future__ import annotations

import hashlib
import shutil
import tomllib
from pathlib import Path

import pytest

from samebits import pins, recipe
from samebits.errors import InputError, RowError
from samebits.gate.settings import accepted_from_json
from samebits.pins import hashed

LOCK = Path(__file__).resolve().parents[2] / "lock"


@pytest.fixture
def data():
    return tomllib.loads((LOCK / "cpu.toml").read_text())


def refusal(data):
    with pytest.raises(InputError) as caught:
        pins.parse(_toml(data), source="r.toml")
    return str(caught.value)


def _toml(data):
    """Enough of TOML for a row whose faults are in its top level and one table below."""
    text = (LOCK / "cpu.toml").read_text()
    for before, after in data:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text.encode()


def test_the_row_loads_with_its_bytes():
    row, content = pins.load("cpu")
    assert (row.id, row.status) == ("cpu", "certified here")
    assert content == (LOCK / "cpu.toml").read_bytes()
    assert pins.digest(content) == hashlib.sha256(content).hexdigest()


ROWS = [
    "cpu",
    "cpu-megatron-0.16",
    "cpu-vllm-0.32",
    "gb200-ds4-preview",
    "gb200-vllm-0.33",
    "h100-ds4-preview",
    "h100-vllm-0.26",
    "h200-vllm-0.26",
]


def test_every_committed_row_is_known():
    assert pins.known() == ROWS


def test_unknown_row():
    with pytest.raises(InputError) as caught:
        pins.load("cpuu")
    assert str(caught.value) == f"row: found 'cpuu'; accepted: {', '.join(ROWS)}. Did you mean 'cpu'?"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ('status = "certified here"\npython', 'status = "certified"\npython'),
            "r.toml: status: found 'certified'; accepted: 'certified here' or 'never run'. Correct the value.",
        ),
        (
            ("cores = 2", "core = 2"),
            (
                "r.toml: hardware.cores: found nothing; accepted: a value. Add the key. "
                "Also wrong in this file: hardware.core."
            ),
        ),
        (
            ('python = ">=3.11,<3.15"', 'python = "3.11 or newer"'),
            (
                "r.toml: python: found '3.11 or newer'; accepted: a version specifier, for instance >=3.11,<3.15. "
                "Correct the value."
            ),
        ),
        (
            ("tensor_parallel_size = [1]", "tensor_parallel_size = 1"),
            (
                "r.toml: gate.engine.tensor_parallel_size: found 1; accepted: a list of values ([]: must stay unset), "
                "or {min = …, max = …}. Correct the value."
            ),
        ),
        (
            ('sha256 = "c04ec010', 'sha256 = "C04EC010'),
            None,
        ),
    ],
)
def test_one_wrong_value_is_named(change, message):
    said = refusal([change])
    if message is None:
        assert said.startswith("r.toml: torch_builds[0].content_sha256: found 'C04EC010")
    else:
        assert said == message


def test_gate_and_models_name_the_same_fields(row):
    """A field that one of the two lacks would be refused in every run, or gated by nobody."""
    assert set(row.gate.engine) == set(recipe.NativeSettings.model_fields)
    assert set(row.gate.actor) == set(recipe.Actor.model_fields)
    assert set(row.gate.request) == set(recipe.CONFORMING)


@pytest.mark.parametrize("name", ["dense-smollm2", "dense-qwen3-small", "ds4-small", "ds4-small-fp8kv"])
def test_gate_accepts_the_recipes_and_refuses_each_exclusion(row, name):
    loaded, _ = recipe.load(name)
    own = {"engine": loaded.engine.model_dump(), "actor": loaded.actor.model_dump(), "request": recipe.CONFORMING}
    rules = {"engine": row.gate.engine_rules(loaded.model.family), "actor": row.gate.actor_rules()}
    tables = {kind: accepted_from_json(said, where=kind) for kind, said in rules.items()}
    tables["request"] = row.gate.request
    for kind, settings in own.items():
        table = tables[kind]
        assert [field for field, value in settings.items() if not table[field].accepts(value)] == []
    accepted = [
        exclusion.set
        for exclusion in loaded.exclusions
        if all(tables[exclusion.kind][field].accepts(value) for field, value in exclusion.set.items())
    ]
    assert accepted == []


def test_gate_tables_as_messages(row, data):
    assert row.gate.engine_rules("dense") == data["gate"]["engine"]
    assert row.gate.engine_rules("ds4") == data["gate"]["engine"] | {
        "quantization": ["fp8"],
        "kv_cache_dtype": ["auto", "fp8_ds_mla"],
    }
    assert row.gate.actor_rules() == data["gate"]["actor"]


def test_packages_and_requirements_pin_the_same_versions(row):
    locked = {pin.name: pin for pin in hashed.parse((LOCK / "cpu.txt").read_text(), source="cpu.txt")}
    for package in row.packages:
        if package.name == "torch":
            assert "torch" not in locked
            continue
        assert locked[package.name].version == package.version
        if package.wheel_sha256 is not None:
            assert package.wheel_sha256 in locked[package.name].hashes


@pytest.mark.parametrize("name", ["cpu", "cpu-megatron-0.16", "verify", "test"])
def test_locks_hold_no_torch_and_nothing_of_it(name):
    text = (LOCK / f"{name}.txt").read_text()
    names = {pin.name for pin in hashed.parse(text, source=name)}
    assert not [one for one in names if one.startswith(("torch", "nvidia-", "cuda-", "triton"))]
    assert "://" not in text


def test_locks_share_their_pins():
    """They are installed one after the other into one environment."""
    versions: dict[str, set[str]] = {}
    for name in ("cpu", "verify", "test"):
        for pin in hashed.parse((LOCK / f"{name}.txt").read_text(), source=name):
            versions.setdefault(pin.name, set()).add(pin.version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_requirements_are_checked_against_the_row(tmp_path):
    assert pins.requirements(LOCK / "cpu.toml") == LOCK / "cpu.txt"
    shutil.copy(LOCK / "cpu.toml", tmp_path)
    with pytest.raises(RowError) as caught:
        pins.requirements(tmp_path / "cpu.toml")
    assert (caught.value.field, caught.value.found) == ("cpu.toml: requirements.sha256", "no such file")
    (tmp_path / "cpu.txt").write_text("")
    with pytest.raises(RowError) as caught:
        pins.requirements(tmp_path / "cpu.toml")
    assert caught.value.found == hashlib.sha256(b"").hexdigest()
    assert caught.value.next_step == "Make cpu.txt and its digest again: samebits lock cpu"
