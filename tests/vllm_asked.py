"""Settings of the real vLLM that its CPU row certifies, and what a test changes of them."""

from __future__ import annotations

import random
from typing import Any

from samebits.engine.protocol import Request
from samebits.recipe import CONFORMING
from samebits.recipe.model import DenseShape, Model, VllmSettings

VOCAB = 512

MODEL = Model(
    family="dense",
    source="seeded",
    seed=3,
    shape=DenseShape(
        vocab_size=VOCAB,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        qk_norm=True,
        initializer_range=0.05,
        lm_head_std=0.25,
    ),
)


EXCLUDED = {
    "tensor_parallel_size": 2,
    "pipeline_parallel_size": 2,
    "data_parallel_size": 2,
    "decode_context_parallel_size": 2,
    "enable_expert_parallel": True,
    "speculative_config": "ngram",
    "quantization": "fp8",
    "kv_cache_dtype": "fp8",
    "enable_prefix_caching": True,
    "enable_lora": True,
    "kv_connector": "NixlConnector",
    "async_rollout": True,
    "logprobs_mode": "processed_logprobs",
    "moe_backend": "triton",
    "enable_dbo": True,
    "generation_config": "auto",
    "model_runner": "V3",
    "compilation_mode": 1,
    "cudagraph_mode": "SOMETIMES",
    "refit": "by_mail",
    "kind": "native",
}
"""What no row can make this adapter do."""

ROW_EXCLUDED = {
    "batch_invariant": True,
    "attention_split_kv": True,
    "attention_backend": "TRITON_ATTN",
    "model_runner": "V2",
    "enforce_eager": False,
    "compilation_mode": 3,
    "custom_ops": ["all"],
    "ir_op_priority": {},
    "cudagraph_mode": "FULL",
    "flashinfer_sampler": True,
    "async_scheduling": True,
    "gpu_memory_utilization": 0.99,
    "enable_chunked_prefill": True,
    "refit": "in_place",
    "block_size": 16,
    "max_model_len": 1024,
    "threads": 8,
    "num_gpu_blocks": 1,
}
"""What the adapter can do, and the CPU row does not certify."""


def settings(**changed: Any) -> dict[str, Any]:
    """Two threads, so that a switch between them can show; few pages, so that somebody is thrown out."""
    certified = VllmSettings(
        max_model_len=192,
        max_num_seqs=6,
        max_num_batched_tokens=512,
        block_size=32,
        num_gpu_blocks=13,
        threads=2,
        enable_chunked_prefill=False,
        attention_backend="CPU_ATTN",
        model_runner="V1",
        enforce_eager=True,
        ir_op_priority={"rms_norm": ["native"], "fused_add_rms_norm": ["native"]},
        gpu_memory_utilization=0.05,
    )
    return {**certified.model_dump(), **changed}


def gate_for(*given: dict[str, Any]) -> dict[str, Any]:
    """A row's table that accepts what any of ``given`` says, and nothing else."""
    names = {name for one in given for name in one}
    values: dict[str, list[Any]] = {name: [] for name in names}
    for one in given:
        for name, value in one.items():
            if value is not None and value not in values[name]:
                values[name].append(value)
    return values


def crowd(count: int = 10) -> list[Request]:
    """Requests r0, r1, …: prompts of 20 to 140 tokens, two arriving with each step."""
    found = []
    for index in range(count):
        stream = random.Random(index)  # noqa: S311 - prompts, not secrets
        found.append(
            Request(
                request_id=f"r{index}",
                prompt_token_ids=[stream.randrange(VOCAB) for _ in range(stream.randrange(20, 140))],
                max_tokens=40,
                seed=100 + index,
                stop_token_ids=[7, 9],
                sampling=dict(CONFORMING),
                arrival_step=index // 2,
            )
        )
    return found
