"""A small row of vLLM and two configurations that it certifies; each test changes one thing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samebits import pins
from samebits.adapters import Adapted, Outcome, Refused, nemo_rl, verl
from samebits.pins import Row

ROW = b"""
schema_version = 1
id = "toy-vllm"
title = "a row for tests"
status = "never run"
python = ">=3.11"
packages = []

[hardware]
arch = "x86_64"
accelerator = "toy"
count = 1
cores = 4
memory_gib = 1
disk_gib = 1
exact_with = []

[switch]
name = "batch_invariant"
aligned = true
control = false

[gate.engine]
kind = ["vllm"]
batch_invariant = [true]
attention_backend = ["FLASH_ATTN"]
model_runner = ["V2", "V1"]
compilation_mode = [0]
custom_ops = [["none"]]
ir_op_priority = [{ rms_norm = ["native"] }]
cudagraph_mode = ["FULL", "NONE"]
flashinfer_sampler = [false]
threads = { min = 1, max = 8 }
refit = ["in_place"]
async_rollout = [false]
max_model_len = { min = 32, max = 4096 }
max_num_seqs = { min = 1, max = 256 }
num_gpu_blocks = { min = 1, max = 100000 }
gpu_memory_utilization = { min = 0.01, max = 0.95 }
enforce_eager = [false]
enable_prefix_caching = [false]
enable_chunked_prefill = [true]
tensor_parallel_size = [1]
pipeline_parallel_size = [1]
data_parallel_size = [1]
enable_expert_parallel = [false]
logprobs_mode = ["raw_logprobs"]
kv_cache_dtype = ["auto"]
quantization = []
speculative_config = []
enable_lora = [false]
kv_connector = []

[gate.actor]

[gate.request]
ignore_eos = [false]
"""

NEMO_RL: dict[str, Any] = {
    "grpo": {"async_grpo": {"enabled": False}, "max_rollout_turns": 1},
    "loss_fn": {"force_on_policy_ratio": False},
    "policy": {
        "model_name": "toy/dense",
        "precision": "bfloat16",
        "max_total_sequence_length": 1024,
        "dtensor_cfg": {"enabled": True, "tensor_parallel_size": 1, "context_parallel_size": 1},
        "megatron_cfg": {"enabled": False, "tensor_model_parallel_size": 8},
        "generation": {
            "backend": "vllm",
            "max_new_tokens": "${policy.max_total_sequence_length}",
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": None,
            "val_temperature": "${.temperature}",
            "val_top_p": "${.top_p}",
            "val_top_k": "${.top_k}",
            "stop_token_ids": None,
            "stop_strings": None,
            "colocated": {"enabled": True},
            "vllm_cfg": {
                "batch_invariant": True,
                "async_engine": False,
                "precision": "${policy.precision}",
                "kv_cache_dtype": "auto",
                "logprobs_mode": "raw_logprobs",
                "tensor_parallel_size": 1,
                "pipeline_parallel_size": 1,
                "expert_parallel_size": 1,
                "gpu_memory_utilization": 0.5,
                "max_model_len": 1024,
                "enforce_eager": False,
                "enable_prefix_caching": False,
            },
            "vllm_kwargs": {
                "max_num_seqs": 64,
                "num_gpu_blocks_override": 512,
                "compilation_config": {"cudagraph_mode": "FULL"},
            },
        },
    },
}

VERL: dict[str, Any] = {
    "actor_rollout_ref": {
        "hybrid_engine": True,
        "actor": {
            "strategy": "fsdp2",
            "use_torch_compile": False,
            "use_remove_padding": False,
            "fsdp_config": {"dtype": "bfloat16"},
        },
        "model": {"path": "toy/dense", "lora_rank": 0, "lora": {"rank": 0}},
        "rollout": {
            "name": "vllm",
            "mode": "async",
            "nnodes": 0,
            "full_determinism": True,
            "temperature": 1.0,
            "top_p": 1,
            "top_k": -1,
            "ignore_eos": False,
            "response_length": 512,
            "calculate_log_probs": True,
            "dtype": "bfloat16",
            "gpu_memory_utilization": 0.5,
            "enforce_eager": False,
            "tensor_model_parallel_size": 1,
            "pipeline_model_parallel_size": 1,
            "data_parallel_size": 1,
            "expert_parallel_size": 1,
            "max_model_len": 1024,
            "max_num_seqs": 64,
            "enable_chunked_prefill": True,
            "enable_prefix_caching": False,
            "logprobs_mode": "raw_logprobs",
            "quantization": None,
            "engine_kwargs": {
                "vllm": {"num_gpu_blocks_override": 512, "compilation_config": '{"cudagraph_mode": "FULL"}'}
            },
            "val_kwargs": {"temperature": 0, "top_p": 1.0, "top_k": -1, "n": 1, "do_sample": False},
        },
    },
    "algorithm": {"rollout_correction": {"bypass_mode": False}},
    "trainer": {"n_gpus_per_node": 1},
}

Said = tuple[str, str, str, str]


@pytest.fixture
def row_file(tmp_path: Path) -> Path:
    path = tmp_path / "toy-vllm.toml"
    path.write_bytes(ROW)
    return path


@pytest.fixture
def row() -> Row:
    return pins.parse(ROW, source="toy-vllm.toml")


@pytest.fixture
def nemo_rl_config() -> dict[str, Any]:
    return copy.deepcopy(NEMO_RL)


@pytest.fixture
def verl_config() -> dict[str, Any]:
    return copy.deepcopy(VERL)


@pytest.fixture
def refused(row: Row) -> Callable[..., list[Said]]:
    """The conflicts of the certified configuration of a framework with ``overrides`` laid over it."""

    def conflicts(framework: str, *overrides: str) -> list[Said]:
        outcome = adapted_or_refused(framework, row, overrides)
        assert isinstance(outcome, Refused)
        prefix = "command line: "
        return [(one.field.removeprefix(prefix), one.found, one.accepted, one.next_step) for one in outcome.conflicts]

    return conflicts


@pytest.fixture
def accepted(row: Row) -> Callable[..., Adapted]:
    """What the certified configuration of a framework becomes with ``overrides`` laid over it."""

    def adapt(framework: str, *overrides: str) -> Adapted:
        outcome = adapted_or_refused(framework, row, overrides)
        assert isinstance(outcome, Adapted), outcome
        return outcome

    return adapt


def adapted_or_refused(framework: str, row: Row, overrides: tuple[str, ...]) -> Outcome:
    if framework == "NeMo RL":
        return nemo_rl(NEMO_RL, row, overrides)
    return verl(VERL, row, overrides)
