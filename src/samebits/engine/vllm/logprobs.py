"""From vLLM's logprobs, which are Python's floats, back to the patterns that were computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from samebits.bits import Bits
from samebits.errors import MachineError


def sampled(token_ids: Sequence[int], logprobs: Iterable[Mapping[int, Any]]) -> list[float]:
    """The logprob of each sampled token, from vLLM's mappings of token id to ``Logprob``."""
    return [float(found[token].logprob) for token, found in zip(token_ids, logprobs, strict=True)]


def fp32_patterns(logprobs: Sequence[float]) -> Bits:
    """uint32 patterns of fp32 numbers that vLLM has turned into Python's.

    fp32 to double and back changes no bit; a double that is no fp32 number would mean that something in between
    computed with it.

    Raises:
        MachineError: there is such a double.
    """
    wide = np.array(logprobs, dtype=np.float64)
    narrow = wide.astype(np.float32)
    if not np.array_equal(narrow.astype(np.float64), wide, equal_nan=True):
        raise MachineError(
            "logprobs",
            found="a number that no fp32 logprob can have",
            accepted="fp32 logprobs, untouched",
            next_step="This vLLM rounds or processes logprobs on their way out; the row must not be certified.",
        )
    patterns: Bits = narrow.view(np.uint32)
    return patterns
