"""The parameters with which vLLM will sample in the end, as the gate's rules name them."""

from __future__ import annotations

from typing import Any, Final

from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind

PRIVATE: Final = frozenset({"_eos_token_id", "_all_stop_token_ids", "_bad_words_token_ids", "_watermarking_skipped"})
"""Fields that vLLM derives from others (0.26, 0.32); a new one has no rule and is refused."""


def flat(params: SamplingParams, *, has_watermark: bool) -> dict[str, Any]:
    """Every parameter in ``params`` by name, whether it was stated or is a default.

    Without a ``watermark_config`` (0.32) unset watermarking is off; 0.26 knows no watermark.
    """
    values = {name: getattr(params, name) for name in params.__struct_fields__ if name not in PRIVATE}
    if isinstance(values["output_kind"], RequestOutputKind):
        values["output_kind"] = values["output_kind"].name
    if "watermarking" in values and values["watermarking"] is None and not has_watermark:
        values["watermarking"] = False
    return values
