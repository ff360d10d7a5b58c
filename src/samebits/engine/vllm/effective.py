"""The configuration in force, read back from the live engine: vLLM falls back silently where it cannot do as asked.

Each setting is read where it takes effect (the layer's own backend, the scheduler's own limit), not where it was
asked for, as far as vLLM has such a place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from vllm import envs
from vllm.config import CUDAGraphMode
from vllm.model_executor.custom_op import CustomOp

from samebits.engine.settings import WHERE
from samebits.engine.vllm.live import Live
from samebits.engine.vllm.settings import USED_OPS
from samebits.errors import GateError
from samebits.gate.settings import raise_first
from samebits.recipe.model import VllmSettings

_V2_RUNNER: Final = "vllm.v1.worker.gpu.model_runner"
_NATIVE: Final = "forward_native"


def effective(live: Live, asked: VllmSettings) -> dict[str, Any]:
    """Every field of :class:`VllmSettings`, as it is now."""
    config = live.config
    model, cache, parallel = config.model_config, config.cache_config, config.parallel_config
    scheduler, compilation = config.scheduler_config, config.compilation_config
    return {
        "kind": "vllm",
        "max_model_len": _one(model.max_model_len, live.runner.max_model_len),
        "max_num_seqs": _one(scheduler.max_num_seqs, live.scheduler.max_num_running_reqs),
        "max_num_batched_tokens": _one(scheduler.max_num_batched_tokens, live.scheduler.max_num_scheduled_tokens),
        "block_size": _one(cache.block_size, *_group_block_sizes(live)),
        "num_gpu_blocks": _one(cache.num_gpu_blocks, live.block_pool.num_gpu_blocks),
        "threads": torch.get_num_threads(),
        "enable_chunked_prefill": scheduler.enable_chunked_prefill,
        "enable_prefix_caching": bool(
            _one(bool(cache.enable_prefix_caching), bool(live.scheduler.kv_cache_manager.enable_caching))
        ),
        "tensor_parallel_size": parallel.tensor_parallel_size,
        "pipeline_parallel_size": parallel.pipeline_parallel_size,
        "data_parallel_size": parallel.data_parallel_size,
        "decode_context_parallel_size": parallel.decode_context_parallel_size,
        "enable_expert_parallel": parallel.enable_expert_parallel,
        "speculative_config": None if config.speculative_config is None else str(config.speculative_config.method),
        "quantization": model.quantization,
        "kv_cache_dtype": _one(cache.cache_dtype, *(layer.kv_cache_dtype for layer in _layers(live))),
        "enable_lora": config.lora_config is not None,
        "kv_connector": None if config.kv_transfer_config is None else config.kv_transfer_config.kv_connector,
        "async_rollout": False,  # generate() returns when all have finished, and refit() waits for nobody
        "logprobs_mode": _one(model.logprobs_mode, live.runner.sampler.logprobs_mode),
        "batch_invariant": bool(envs.VLLM_BATCH_INVARIANT),
        "attention_split_kv": bool(envs.VLLM_CPU_ATTN_SPLIT_KV) if live.is_cpu else asked.attention_split_kv,
        "attention_backend": _one(*(layer.attn_backend.get_name() for layer in _layers(live))),
        "moe_backend": config.kernel_config.moe_backend,
        "model_runner": "V2" if is_v2(live) else "V1",
        "enforce_eager": model.enforce_eager,
        "compilation_mode": int(compilation.mode),
        "custom_ops": list(compilation.custom_ops),
        "ir_op_priority": _priorities(live, asked),
        "cudagraph_mode": _graphs(live),
        "flashinfer_sampler": _one(bool(envs.VLLM_USE_FLASHINFER_SAMPLER), _samples_with_flashinfer(live)),
        "async_scheduling": _one(bool(scheduler.async_scheduling), bool(live.core.batch_queue is not None)),
        "enable_dbo": parallel.enable_dbo,
        "gpu_memory_utilization": cache.gpu_memory_utilization,
        "generation_config": _generation_config(live),
        "refit": asked.refit,
    }


def check(live: Live, asked: VllmSettings, dtype: torch.dtype) -> None:
    """That everything is as asked, and that nothing else computes than what the settings mean.

    Raises:
        GateError: the first setting that is not, with the others named behind it.
    """
    found = effective(live, asked)
    wrong = [
        _silent(name, found=found.get(name), accepted=value)
        for name, value in asked.model_dump().items()
        if found.get(name) != value
    ]
    raise_first(wrong + _unasked(live, asked, dtype))


def is_v2(live: Live) -> bool:
    """Whether the model runner is the second one: by its class, since a flag may have been overruled."""
    return any(one.__module__ == _V2_RUNNER for one in type(live.runner).__mro__)


def _unasked(live: Live, asked: VllmSettings, dtype: torch.dtype) -> list[GateError]:
    """What no setting names and bits depend on."""
    found = []
    if live.config.model_config.dtype != dtype:
        found.append(_silent("dtype", found=live.config.model_config.dtype, accepted=dtype))
    stray = sorted({str(one.dtype) for one in live.model.parameters() if one.dtype != dtype})
    if stray:
        found.append(_silent("dtype of the parameters", found=", ".join(stray), accepted=dtype))
    rows = {str(cache.dtype) for cache in _caches(live)}
    if rows != {str(dtype)}:
        found.append(_silent("kv_cache_dtype", found=", ".join(sorted(rows)), accepted=dtype))
    if list(asked.custom_ops) == ["none"]:
        other = sorted({type(op).__name__ for op in _custom_ops(live) if _method(op) != _NATIVE})
        if other:
            found.append(_silent("custom_ops", found=f"C++ kernels in {', '.join(other)}", accepted=["none"]))
    processors = sorted(name for name in _processors(live) if not name.startswith("vllm."))
    if processors:
        found.append(_silent("logits processors", found=", ".join(processors), accepted="vLLM's own, all idle"))
    return found


def linear_kernels(live: Live) -> list[str]:
    """What the matrix products of this engine are computed by: on CPUs chosen by vLLM for each layer's shape."""
    if not live.is_cpu:
        return ["linear_batch_invariant" if envs.VLLM_BATCH_INVARIANT else "torch.nn.functional.linear"]
    names = {
        module.cpu_linear.__code__.co_names[-1] for module in live.model.modules() if hasattr(module, "cpu_linear")
    }
    return sorted(names)


def _one(*values: Any) -> Any:
    """The value in all these places; where they differ, all of them, which is never what was asked."""
    first = values[0]
    return first if all(value == first for value in values) else list(values)


def _silent(name: str, *, found: object, accepted: object) -> GateError:
    return GateError(
        f"{WHERE}.{name}",
        found=f"{found!r} in the live engine",
        accepted=f"{accepted!r}, as asked",
        next_step="vLLM did not do as asked; ask for what it does, if the row certifies that.",
    )


def _layers(live: Live) -> list[Any]:
    return list(live.attention_layers().values())


def _caches(live: Live) -> list[torch.Tensor]:
    """The tensors in which keys and values lie; one layer's is a tensor, or in 0.26 a list of one."""
    found = []
    for layer in _layers(live):
        cache = layer.kv_cache
        found += [cache] if isinstance(cache, torch.Tensor) else list(cache)
    return found


def _group_block_sizes(live: Live) -> list[int]:
    return [group.kv_cache_spec.block_size for group in live.runner.kv_cache_config.kv_cache_groups]


def _custom_ops(live: Live) -> list[CustomOp]:
    return [module for module in live.model.modules() if isinstance(module, CustomOp)]


def _method(op: CustomOp) -> str:
    return str(op._forward_method.__name__)  # noqa: SLF001 - nothing public says which one was chosen


def _priorities(live: Live, asked: VllmSettings) -> dict[str, list[str]]:
    """As far as asked: vLLM appends the platform's defaults, which are never reached behind ``native``."""
    live_priorities: Mapping[str, list[str]] = vars(live.config.kernel_config.ir_op_priority)
    return {
        name: list(live_priorities[name][: len(asked.ir_op_priority.get(name, live_priorities[name]))])
        for name in USED_OPS
    }


def _graphs(live: Live) -> str:
    """The mode in force; ``NONE`` as well if graphs were asked for and none was captured."""
    mode = CUDAGraphMode(live.config.compilation_config.cudagraph_mode)
    manager = getattr(live.runner, "cudagraph_manager", None)  # V2's; V1 wraps the model in its own mode
    if manager is not None:
        mode = CUDAGraphMode(manager.cudagraph_mode)
        if mode.has_full_cudagraphs() and not manager.graphs:
            mode = CUDAGraphMode.NONE
    return str(mode.name)


def _samples_with_flashinfer(live: Live) -> bool:
    sampler = live.runner.sampler
    if is_v2(live):
        return bool(sampler.use_flashinfer)
    return bool(sampler.topk_topp_sampler.forward.__name__ == "forward_cuda")


def _generation_config(live: Live) -> str | list[Any]:
    """``vllm`` only if no sampling default of a file is laid over requests; stop tokens are checked at each request."""
    model = live.config.model_config
    defaults = model.get_diff_sampling_param()
    source = str(model.generation_config)
    return [source, dict(defaults)] if defaults else source


def _processors(live: Live) -> list[str]:
    """Modules of every logits processor: V1's batch holds them; V2's sampler has a list of them since 0.32."""
    batch = getattr(getattr(live.runner, "input_batch", None), "logitsprocs", None)
    found = [] if batch is None else list(batch.all)
    found += getattr(live.runner.sampler, "logits_processors", [])
    return [type(one).__module__ for one in found]
