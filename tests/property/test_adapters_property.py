"""Whatever a configuration says, it ends in one of three ways, and never in an engine that the row does not certify."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits import pins
from samebits.adapters import Adapted, Outcome, Refused, nemo_rl, verl
from samebits.errors import InputError
from samebits.gate.settings import accepted_from_json, conflicts

ROW, _ = pins.load(Path(__file__).parents[2] / "lock" / "h200-vllm-0.26.toml")
RULES = accepted_from_json(ROW.gate.engine_rules("dense"), where="gate.engine")

NEMO_RL: dict[str, Any] = {
    "policy": {
        "dtensor_cfg": {"enabled": True},
        "generation": {
            "backend": "vllm",
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": None,
            "max_new_tokens": 64,
            "vllm_cfg": {
                "batch_invariant": True,
                "precision": "bfloat16",
                "gpu_memory_utilization": 0.5,
                "max_model_len": 512,
                "enable_prefix_caching": False,
            },
            "vllm_kwargs": {
                "max_num_seqs": 8,
                "max_num_batched_tokens": 1024,
                "num_gpu_blocks_override": 64,
                "compilation_config": {"cudagraph_mode": "FULL"},
            },
        },
    }
}
VERL: dict[str, Any] = {
    "actor_rollout_ref": {
        "actor": {"strategy": "fsdp", "use_torch_compile": False},
        "rollout": {
            "name": "vllm",
            "full_determinism": True,
            "calculate_log_probs": True,
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": -1,
            "response_length": 64,
            "tensor_model_parallel_size": 1,
            "gpu_memory_utilization": 0.5,
            "max_model_len": 512,
            "max_num_seqs": 8,
            "max_num_batched_tokens": 1024,
            "enable_prefix_caching": False,
            "enforce_eager": False,
            "logprobs_mode": "raw_logprobs",
            "engine_kwargs": {
                "vllm": {"num_gpu_blocks_override": 64, "compilation_config": {"cudagraph_mode": "FULL"}}
            },
        },
    }
}
BLOCKS = {
    "NeMo RL": ["policy.generation", "policy.generation.vllm_cfg", "policy.dtensor_cfg", "policy", ""],
    "verl": [
        "actor_rollout_ref.rollout",
        "actor_rollout_ref.actor",
        "actor_rollout_ref.model",
        "actor_rollout_ref",
        "",
    ],
}
PASSED_ON = {
    "NeMo RL": "policy.generation.vllm_kwargs",
    "verl": "actor_rollout_ref.rollout.engine_kwargs.vllm",
}

names = st.from_regex(r"[a-z]{1,3}_[a-z]{4,8}x", fullmatch=True)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 40), st.floats(), st.text("abc${}?.", max_size=8))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2), max_leaves=4
)


def adapt(framework: str, config: dict[str, Any]) -> Outcome:
    return nemo_rl(config, ROW) if framework == "NeMo RL" else verl(config, ROW)


def certified(framework: str) -> dict[str, Any]:
    return NEMO_RL if framework == "NeMo RL" else VERL


def laid(config: dict[str, Any], at: str, value: Any) -> dict[str, Any]:
    """A copy of ``config`` with ``value`` at the dotted field ``at``."""
    first, _, rest = at.partition(".")
    inner = config.get(first, {})
    return {**config, first: laid(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}


def fields(config: dict[str, Any], above: str = "") -> list[str]:
    found = []
    for name, value in config.items():
        found += fields(value, f"{above}{name}.") if isinstance(value, dict) else [f"{above}{name}"]
    return found


@pytest.mark.parametrize("framework", ["NeMo RL", "verl"])
def test_both_are_certified_as_they_are(framework: str) -> None:
    assert isinstance(adapt(framework, certified(framework)), Adapted)


@pytest.mark.parametrize("framework", ["NeMo RL", "verl"])
@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_a_field_that_nobody_knows_is_refused(framework: str, data: st.DataObject) -> None:
    block = data.draw(st.sampled_from([*BLOCKS[framework], PASSED_ON[framework]]))
    at = f"{block}.{data.draw(names)}" if block else data.draw(names)
    outcome = adapt(framework, laid(certified(framework), at, data.draw(st.integers(0, 9))))
    assert isinstance(outcome, Refused)
    assert [one.field for one in outcome.conflicts] == [f"configuration: {at}"]


@pytest.mark.parametrize("framework", ["NeMo RL", "verl"])
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_whatever_is_accepted_is_certified(framework: str, data: st.DataObject) -> None:
    config = certified(framework)
    at = data.draw(st.sampled_from(fields(config)))
    value = data.draw(values)
    try:
        outcome = adapt(framework, laid(config, at, value))
    except InputError:
        return
    if isinstance(outcome, Adapted):
        assert conflicts(outcome.settings, RULES, where="engine") == []
        assert outcome.guard.conflicts({**outcome.sampling, "seed": 0}, request_id="r") == []
        assert outcome.environment["VLLM_BATCH_INVARIANT"] == "1"
        assert not (isinstance(value, float) and math.isnan(value))
    else:
        assert outcome.conflicts
        assert all(one.next_step and one.accepted and one.found for one in outcome.conflicts)
