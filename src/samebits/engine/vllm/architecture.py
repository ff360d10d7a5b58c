"""Which models this adapter certifies, decided from ``config.json`` before vLLM is imported.

A positive list.  A hybrid's state depends on how a prompt was cut into chunks, and no release from 0.26 to 0.33 has a
batch-invariant attention backend for DeepSeek-V4 or Mamba: vLLM raises under the flag, and promises nothing without.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from samebits.errors import GateError
from samebits.models.family import Decoder
from samebits.models.folder import open_decoder, read_config

ARCHITECTURES: Final = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}
"""``model_type`` to the one class of vLLM that computes it."""

_REASONS: Final = {
    "deepseek_v4": "no release of vLLM has a batch-invariant attention backend for DeepSeek-V4",
    "mamba": "a recurrent state depends on where its prefill was cut",
    "mamba2": "a recurrent state depends on where its prefill was cut",
}
_RECURRENT: Final = ("mamba", "linear_attention", "recurrent", "conv")
"""Kinds of layer, as ``layer_types`` and the hybrids' own keys name them."""


def accepted(folder: Path) -> tuple[dict[str, Any], Decoder]:
    """``config.json`` of ``folder`` and the kit's own reading of it.

    Raises:
        GateError: an architecture that is not on the list.
        InputError: no ``config.json``, or an option that the family does not compute.
    """
    config = read_config(folder)
    kind = config.get("model_type")
    found = config.get("architectures")
    if kind not in ARCHITECTURES or found != [ARCHITECTURES[kind]] or _is_hybrid(config):
        raise GateError(
            "engine.architecture",
            found=f"model_type {kind!r}, architectures {found!r}{_why(config)}",
            accepted=" or ".join(f"{kind} as {name}" for kind, name in ARCHITECTURES.items()),
            next_step="Choose a Llama or Qwen3 dense decoder; others are refused until a row certifies them.",
        )
    return config, open_decoder(config)


def _is_hybrid(config: Mapping[str, Any]) -> bool:
    kinds = config.get("layer_types") or []
    return any(word in str(kind) for kind in kinds for word in _RECURRENT) or any(
        key.startswith(("mamba_", "ssm_")) for key in config
    )


def _why(config: Mapping[str, Any]) -> str:
    reason = _REASONS.get(str(config.get("model_type")))
    if reason is None and _is_hybrid(config):
        reason = "a hybrid: a recurrent state depends on where its prefill was cut"
    return f" ({reason})" if reason else ""
