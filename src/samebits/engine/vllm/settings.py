"""Engine settings: gated by the row, then by what this adapter can drive at all, then parsed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from samebits.engine import settings as every
from samebits.engine.settings import OFF, SWITCH, UNSET, WHERE
from samebits.errors import GateError
from samebits.gate.settings import Accepted, raise_first
from samebits.pins import Range, Values
from samebits.recipe.model import VllmSettings

USED_OPS: Final = ("rms_norm", "fused_add_rms_norm")
"""Operations with an IR priority that the accepted architectures call; a recipe states each of them."""

SUPPORTED: Final[Mapping[str, Accepted]] = {
    **every.SUPPORTED,
    "kind": Values(("vllm",)),
    "num_gpu_blocks": Range(2, 10_000_000),  # vLLM keeps one for itself
    "quantization": UNSET,
    "kv_cache_dtype": Values(("auto",)),
    "batch_invariant": SWITCH,
    "attention_split_kv": SWITCH,
    "moe_backend": Values(("auto",)),  # no accepted architecture has experts
    "model_runner": Values(("V1", "V2")),
    "enforce_eager": SWITCH,
    "compilation_mode": Values((0, 3)),
    "cudagraph_mode": Values(("NONE", "FULL", "PIECEWISE", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")),
    "flashinfer_sampler": SWITCH,
    "async_scheduling": SWITCH,
    "enable_dbo": OFF,
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
    parsed = every.certified(VllmSettings, settings, gate, SUPPORTED, own=SUPPORTED)
    raise_first(_misfits(parsed))
    return parsed


def _misfits(settings: VllmSettings) -> list[GateError]:
    slots = (settings.num_gpu_blocks - 1) * settings.block_size
    pages = f"{settings.num_gpu_blocks} pages of {settings.block_size}, one of them vLLM's: {slots} tokens"
    found = every.sequence_misfits(settings, slots=slots, pages=pages) + every.prompt_misfits(settings)
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
