"""Engine settings: gated by the row, then by what this adapter can drive at all, then parsed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from samebits.errors import GateError
from samebits.gate.settings import Accepted, accepted_from_json, check, raise_first
from samebits.pins import Range, Values
from samebits.recipe.model import VllmSettings
from samebits.schema import parse

WHERE: Final = "engine"
USED_OPS: Final = ("rms_norm", "fused_add_rms_norm")
"""Operations with an IR priority that the accepted architectures call; a recipe states each of them."""

_MANY: Final = Range(1, 10_000_000)
_OFF: Final = Values((False,))
_ONE: Final = Values((1,))
_SWITCH: Final = Values((False, True))
_UNSET: Final = Values(())

SUPPORTED: Final[Mapping[str, Accepted]] = {
    "kind": Values(("vllm",)),
    "max_model_len": _MANY,
    "max_num_seqs": _MANY,
    "max_num_batched_tokens": _MANY,
    "block_size": _MANY,
    "num_gpu_blocks": Range(2, 10_000_000),  # vLLM keeps one for itself
    "threads": Range(1, 256),
    "enable_chunked_prefill": _SWITCH,
    "enable_prefix_caching": _OFF,  # a page found again may have been computed under other weights
    "tensor_parallel_size": _ONE,
    "pipeline_parallel_size": _ONE,
    "data_parallel_size": _ONE,
    "decode_context_parallel_size": _ONE,
    "enable_expert_parallel": _OFF,
    "speculative_config": _UNSET,
    "quantization": _UNSET,
    "kv_cache_dtype": Values(("auto",)),
    "enable_lora": _OFF,
    "kv_connector": _UNSET,
    "async_rollout": _OFF,
    "logprobs_mode": Values(("raw_logprobs",)),
    "batch_invariant": _SWITCH,
    "attention_split_kv": _SWITCH,
    "moe_backend": Values(("auto",)),  # no accepted architecture has experts
    "model_runner": Values(("V1", "V2")),
    "enforce_eager": _SWITCH,
    "compilation_mode": Values((0, 3)),
    "cudagraph_mode": Values(("NONE", "FULL", "PIECEWISE", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")),
    "flashinfer_sampler": _SWITCH,
    "async_scheduling": _SWITCH,
    "enable_dbo": _OFF,
    "gpu_memory_utilization": Range(0.001, 0.99),
    "generation_config": Values(("vllm",)),  # anything else lets a file change what a request means
    "refit": Values(("file", "in_place")),
}
"""What this adapter drives, whatever a row accepts: a row that is laxer must not make it pretend.

``attention_backend``, ``custom_ops`` and ``ir_op_priority`` are vLLM's own vocabulary: it validates them, and what it
made of them is read back.
"""


def certified(settings: Mapping[str, Any], gate: Mapping[str, Any]) -> VllmSettings:
    """``settings`` once the row's ``[gate.engine]`` table and this adapter's own limits have passed them.

    Raises:
        GateError: a setting that is unknown, that the row or the adapter does not accept, or settings that do not fit
            together.
        InputError: a malformed gate table or an ill-typed setting.
    """
    check(settings, accepted_from_json(gate, where=f"gate.{WHERE}"), where=WHERE)
    own = {name: value for name, value in settings.items() if name in SUPPORTED}
    check(own, SUPPORTED, where=WHERE)
    parsed = parse(VllmSettings, dict(settings), source=WHERE)
    raise_first(_misfits(parsed))
    return parsed


def _misfits(settings: VllmSettings) -> list[GateError]:
    found = []
    slots = (settings.num_gpu_blocks - 1) * settings.block_size
    if slots < settings.max_model_len:
        found.append(
            GateError(
                f"{WHERE}.num_gpu_blocks",
                found=f"{settings.num_gpu_blocks} pages of {settings.block_size}, one of them vLLM's: {slots} tokens",
                accepted=f"at least max_model_len = {settings.max_model_len} tokens: one sequence must fit alone",
                next_step="Raise num_gpu_blocks, or lower max_model_len.",
            )
        )
    if not settings.enable_chunked_prefill and settings.max_num_batched_tokens < settings.max_model_len:
        found.append(
            GateError(
                f"{WHERE}.max_num_batched_tokens",
                found=settings.max_num_batched_tokens,
                accepted=f"at least max_model_len = {settings.max_model_len} without chunked prefill",
                next_step="Raise max_num_batched_tokens, or enable chunked prefill.",
            )
        )
    missing = [name for name in USED_OPS if name not in settings.ir_op_priority]
    if missing:
        found.append(
            GateError(
                f"{WHERE}.ir_op_priority",
                found=", ".join(settings.ir_op_priority) or "nothing",
                accepted=f"a priority for each of {', '.join(USED_OPS)}",
                next_step="State it: vLLM's own default depends on the platform.",
            )
        )
    return found
