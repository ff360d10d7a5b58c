"""Settings as vLLM's own ``EngineArgs``: every one that can decide bits is passed, none left to a default."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from samebits.models.folder import config_dtype
from samebits.recipe.model import VllmSettings


def arguments(settings: VllmSettings, folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of ``EngineArgs``; the names are those of 0.26 and of 0.32 alike."""
    dtype = config_dtype(config)
    return {
        "model": str(folder),
        "skip_tokenizer_init": True,  # prompts are token ids
        "trust_remote_code": False,
        "load_format": "safetensors",
        "dtype": str(dtype).removeprefix("torch."),
        "seed": 0,  # of vLLM's shared generator; every request has a seed of its own
        "max_model_len": settings.max_model_len,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "block_size": settings.block_size,
        "num_gpu_blocks_override": settings.num_gpu_blocks,
        # Exactly what the pages take, so that their number depends on no measurement of free memory: an actor comes
        # and goes on the same GPU.
        "kv_cache_memory_bytes": settings.num_gpu_blocks * page_bytes(settings, config),
        "gpu_memory_utilization": settings.gpu_memory_utilization,
        "enable_chunked_prefill": settings.enable_chunked_prefill,
        "enable_prefix_caching": settings.enable_prefix_caching,
        "tensor_parallel_size": settings.tensor_parallel_size,
        "pipeline_parallel_size": settings.pipeline_parallel_size,
        "data_parallel_size": settings.data_parallel_size,
        "decode_context_parallel_size": settings.decode_context_parallel_size,
        "enable_expert_parallel": settings.enable_expert_parallel,
        "distributed_executor_backend": "uni",
        "quantization": settings.quantization,
        "kv_cache_dtype": settings.kv_cache_dtype,
        "enable_lora": settings.enable_lora,
        "logprobs_mode": settings.logprobs_mode,
        "attention_backend": settings.attention_backend,
        "enforce_eager": settings.enforce_eager,
        "compilation_config": {
            "mode": settings.compilation_mode,
            "custom_ops": list(settings.custom_ops),
            "cudagraph_mode": settings.cudagraph_mode,
        },
        "kernel_config": {
            "ir_op_priority": {name: list(order) for name, order in settings.ir_op_priority.items()},
            "moe_backend": settings.moe_backend,
        },
        "async_scheduling": settings.async_scheduling,
        "enable_dbo": settings.enable_dbo,
        "generation_config": settings.generation_config,
        "scheduling_policy": "fcfs",
        "disable_log_stats": True,
    }


def page_bytes(settings: VllmSettings, config: Mapping[str, Any]) -> int:
    """Bytes of one page of keys and values, all layers together."""
    heads = config.get("num_key_value_heads") or config["num_attention_heads"]
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rows = settings.block_size * int(config["num_hidden_layers"]) * 2
    return int(rows * heads * size * config_dtype(config).itemsize)
