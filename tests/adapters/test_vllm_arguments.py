"""Arguments and settings: one is the other, taken apart; variables come from settings alone."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from samebits import pins
from samebits.adapters import vllm_arguments
from samebits.engine.vllm.variables import variables
from samebits.gate.settings import accepted_from_json
from samebits.pins import Values
from samebits.recipe import VllmSettings

ROWS = ["h200-vllm-0.26", "cpu-vllm-0.32"]


def settings_of(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for argument, one in arguments.items()
        for name, value, _ in vllm_arguments.settings_of(argument, one)
    }


@pytest.mark.parametrize("row", ROWS)
def test_what_a_row_names_is_known_to_recipes_too(row: str) -> None:
    rules = pins.load(row)[0].gate.engine_rules("dense")
    assert set(rules) <= set(VllmSettings.model_fields)


@pytest.mark.parametrize("row", ROWS)
def test_settings_survive_the_way_through_arguments(row: str) -> None:
    rules = accepted_from_json(pins.load(row)[0].gate.engine_rules("dense"), where="gate.engine")
    settings = {
        name: rule.minimum if not isinstance(rule, Values) else rule.accepted[0] if rule.accepted else None
        for name, rule in rules.items()
    }
    own = {
        name: value
        for name, value in settings.items()
        if value is not None and name not in vllm_arguments.NOT_ARGUMENTS
    }
    assert settings_of(vllm_arguments.arguments_of(settings)) == own
    for name in own:
        path = vllm_arguments.argument_path(name)
        assert name in vllm_arguments.settings_named(path.partition(".")[0])


@pytest.mark.parametrize(
    ("argument", "value", "settings"),
    [
        ("compilation_config", {"mode": 3, "backend": "eager"},
         [("compilation_mode", 3, "compilation_config.mode"),
          ("compilation_config.backend", "eager", "compilation_config.backend")]),
        ("compilation_config", '{"mode": 3}', [("compilation_mode", 3, "compilation_config.mode")]),
        ("compilation_config", "3", [("compilation_config", "3", "compilation_config")]),
        ("compilation_config", 3, [("compilation_config", 3, "compilation_config")]),
        ("compilation_config", None, []),
        ("num_gpu_blocks_override", 7, [("num_gpu_blocks", 7, "num_gpu_blocks_override")]),
        ("attention_config", {"backend": "TRITON_ATTN"},
         [("attention_backend", "TRITON_ATTN", "attention_config.backend")]),
        ("whatever", 1, [("whatever", 1, "whatever")]),
    ],
)  # fmt: skip
def test_arguments_are_taken_apart(argument: str, value: Any, settings: list[tuple[str, Any, str]]) -> None:
    assert list(vllm_arguments.settings_of(argument, value)) == settings


def test_variables_of_a_gpu_and_of_a_cpu() -> None:
    common = {"batch_invariant": True, "attention_split_kv": False, "flashinfer_sampler": False, "threads": 3}
    assert vllm_arguments.environment_of({**common, "attention_backend": "FLASH_ATTN", "model_runner": "V1"}) == {
        "OMP_NUM_THREADS": "3",
        "VLLM_BATCH_INVARIANT": "1",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "VLLM_USE_V2_MODEL_RUNNER": "0",
    }
    assert vllm_arguments.environment_of({**common, "attention_backend": "CPU_ATTN", "batch_invariant": False}) == {
        "OMP_NUM_THREADS": "3",
        "VLLM_BATCH_INVARIANT": "0",
        "VLLM_CPU_ATTN_SPLIT_KV": "0",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
    }


@pytest.mark.parametrize(("row", "device"), [("h200-vllm-0.26", "cuda"), ("cpu-vllm-0.32", "cpu")])
def test_the_kits_own_engine_sets_the_same_variables(row: str, device: Literal["cuda", "cpu"]) -> None:
    rules = accepted_from_json(pins.load(row)[0].gate.engine_rules("dense"), where="gate.engine")
    stated = {
        name: rule.minimum if not isinstance(rule, Values) else rule.accepted[0] if rule.accepted else None
        for name, rule in rules.items()
    }
    ours = vllm_arguments.environment_of(stated)
    del ours["OMP_NUM_THREADS"]  # which the kit's launcher sets
    theirs = variables(VllmSettings(**{**stated, "gpu_memory_utilization": 0.5}), device)
    assert {name: theirs[name] for name in ours} == ours
