"""The parameters with which vLLM will sample in the end, as the gate's rules name them; offline and behind HTTP alike.

Imports nothing that vLLM 0.26 lacks, and none of the adapter.
"""

from __future__ import annotations

from typing import Any, Final

from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind

from samebits.errors import GateError
from samebits.gate import request

PRIVATE: Final = frozenset({"_eos_token_id", "_all_stop_token_ids", "_bad_words_token_ids", "_watermarking_skipped"})
"""Fields that vLLM derives from others (0.26, 0.32); a new one has no rule and is refused."""


def flat(params: SamplingParams, *, has_watermark: bool) -> dict[str, Any]:
    """Every parameter in ``params`` by name, whether it was stated or is a default.

    ``has_watermark`` says whether the engine has a ``watermark_config``: without one, unset watermarking is off, and a
    request that asks for it gets none (vLLM 0.32, ``_check_supports_watermarking``).  0.26 knows no watermark.
    """
    values = {name: getattr(params, name) for name in params.__struct_fields__ if name not in PRIVATE}
    if isinstance(values["output_kind"], RequestOutputKind):
        values["output_kind"] = values["output_kind"].name
    if "watermarking" in values and values["watermarking"] is None and not has_watermark:
        values["watermarking"] = False
    return values


def conflicts(params: object, *, has_watermark: bool, request_id: str | None = None) -> list[GateError]:
    """Everything in the final ``params`` of a request that does not conform."""
    if not isinstance(params, SamplingParams):
        return [
            GateError(
                "sampling_params",
                found=type(params).__name__,
                accepted="SamplingParams",
                next_step="Sample; a beam search or a pooling request is not certified.",
            )
        ]
    return request.conflicts(flat(params, has_watermark=has_watermark), request_id=request_id)
