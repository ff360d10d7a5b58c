"""Engine settings: gated by the row, then by what this engine can do at all, then parsed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from samebits.engine import settings as every
from samebits.engine.native.cache import group_of
from samebits.engine.settings import WHERE
from samebits.errors import GateError
from samebits.gate.settings import Accepted, raise_first
from samebits.models.family import Decoder
from samebits.pins import Values
from samebits.recipe.model import NativeSettings

SUPPORTED: Final[Mapping[str, Accepted]] = {
    **every.SUPPORTED,
    "kind": Values(("native",)),
    "kv_cache_dtype": Values(("auto", "fp8_ds_mla")),
}
"""What this engine computes; ``quantization`` is the model's own, see :func:`check_model`."""


class Settings(NativeSettings):
    """The recipe's engine settings, and the one that no recipe can state."""

    sampling_mode: Literal["exact", "smoke"] = "exact"
    """``smoke`` lets a request ask for greedy decoding (temperature 0). No row's gate names it: never certified."""

    def effective(self) -> dict[str, Any]:
        """As a message; ``sampling_mode`` shows only where it is not the certified one."""
        return self.model_dump(exclude={"sampling_mode"} if self.sampling_mode == "exact" else None)


def certified(settings: Mapping[str, Any], gate: Mapping[str, Any]) -> Settings:
    """``settings`` once the row's ``[gate.engine]`` table and this engine's own limits have passed them.

    Raises:
        GateError: a setting that the row or the engine does not accept, or settings that do not fit together.
        InputError: a malformed gate table or an ill-typed setting.
    """
    own = settings.keys() - {"sampling_mode", "quantization"}
    parsed = every.certified(Settings, settings, gate, SUPPORTED, own=own)
    raise_first(_misfits(parsed))
    return parsed


def check_model(settings: Settings, decoder: Decoder) -> None:
    """That the model has a position for every key slot, that it is quantised as asked, and that a sequence fits.

    Raises:
        GateError: ``max_model_len`` exceeds what the model was made for, or what all pages together hold; or a format
            other than the model's own.
    """
    if settings.max_model_len > decoder.max_positions:
        raise GateError(
            f"{WHERE}.max_model_len",
            found=settings.max_model_len,
            accepted=f"at most {decoder.max_positions}, the model's max_position_embeddings",
            next_step="Lower max_model_len.",
        )
    _check_formats(settings, decoder)
    caches = [cache for layer in range(decoder.layers) for cache in decoder.caches(layer)]
    groups = dict.fromkeys(group_of(cache, settings.block_size) for cache in caches)
    needed = sum(group.pages(settings.max_model_len) for group in groups)
    if settings.num_gpu_blocks < needed:
        raise GateError(
            f"{WHERE}.num_gpu_blocks",
            found=settings.num_gpu_blocks,
            accepted=f"at least {needed}: one sequence of max_model_len = {settings.max_model_len} tokens, "
            f"in {len(groups)} groups of caches",
            next_step="Raise num_gpu_blocks, or lower max_model_len.",
        )


def _check_formats(settings: Settings, decoder: Decoder) -> None:
    """As in vLLM, unset and ``auto`` mean the model's own formats; asking for others would change the policy."""
    own = {
        "quantization": (decoder.config.get("quantization_config") or {}).get("quant_method"),
        "kv_cache_dtype": decoder.config.get("kv_cache_format", "auto"),
    }
    for name, formats in own.items():
        found = getattr(settings, name)
        if found not in {None, "auto", formats}:
            raise GateError(
                f"{WHERE}.{name}",
                found=repr(found),
                accepted="unset" if formats is None else repr(formats),
                next_step="Use the format that the model has, or leave it out: the actor computes in the model's own.",
            )


def _misfits(settings: Settings) -> list[GateError]:
    slots = settings.num_gpu_blocks * settings.block_size
    pages = f"{settings.num_gpu_blocks} pages of {settings.block_size}, {slots} tokens in all"
    found = every.sequence_misfits(settings, slots=slots, pages=pages)
    if settings.max_num_batched_tokens < settings.max_num_seqs:
        found.append(
            GateError(
                f"{WHERE}.max_num_batched_tokens",
                found=settings.max_num_batched_tokens,
                accepted=f"at least max_num_seqs = {settings.max_num_seqs}: all that run decode in every step",
                next_step="Raise max_num_batched_tokens, or lower max_num_seqs.",
            )
        )
    return found + every.prompt_misfits(settings)
