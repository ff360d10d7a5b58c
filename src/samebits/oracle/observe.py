"""Numbers that describe a run and decide nothing but rule 12: divergence, entropy, distinct patterns.

The RFC keeps ``gen_kl_error`` and its relatives as observations, "not the gate": NeMo RL prints it as 0.0000 for
differences just under 0.01.  All of this must come out the same on every machine that judges the same evidence, so
sums are integers where they can be, and text carries fewer digits than two machines' exponentials agree on.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from samebits import bits
from samebits.bits import Bits

INFINITY = 0x7F80_0000
"""The pattern of +infinity; as integers, magnitudes of finite values are below it and those of NaN above."""
_POINT = 1 << 20
"""Fixed point of the entropy sum: below an ulp of fp32 for every logprob under −8, and exact to add in any order."""
_CLIP = np.float32(2047)
"""Larger magnitudes could leave float64's whole numbers; a token that likely has never been sampled."""
_CLIP_BITS = int(_CLIP.view(np.uint32))
_PATTERNS_KEPT = 1 << 16
_SMALL = 1e-2


class Divergence:
    """k3 of KL(left ‖ right) summed over tokens, and the largest difference of probabilities.

    k3 is ``exp(d) − 1 − d`` with ``d = log p_right − log p_left`` (J. Schulman, "Approximating KL divergence", 2020);
    its mean over tokens sampled from *left* estimates the divergence without bias.  Equal patterns add exactly 0.
    """

    def __init__(self) -> None:
        self.k3_sum = 0.0
        self.max_probability_difference = 0.0

    def add(self, left: Bits, right: Bits) -> None:
        """More tokens with different, finite patterns: uint32 [N] each."""
        p = bits.to_float32(left).astype(np.float64)
        q = bits.to_float32(right).astype(np.float64)
        delta = np.clip(q - p, -80.0, 80.0)
        self.k3_sum += float(_k3(delta).sum())
        difference = np.exp(np.clip(p, -700.0, 80.0)) * np.abs(np.expm1(delta))
        self.max_probability_difference = max(self.max_probability_difference, float(difference.max()))

    def to_dict(self, compared: int) -> dict[str, str | None]:
        """As decimal text, four digits."""
        if not compared:
            return {"k3Kl": None, "maxProbabilityDifference": None}
        return {
            "k3Kl": _digits(self.k3_sum / compared),
            "maxProbabilityDifference": _digits(self.max_probability_difference),
        }


class Informativeness:
    """Rule 12: do the logprobs carry information at all?

    The evidence holds the sampled token's logprob, not the distribution.  At temperature 1 the mean of ``−logprob``
    over sampled tokens is an unbiased estimate of the mean entropy, and that is what is reported.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self._sum = 0
        self._kept = np.empty(_PATTERNS_KEPT, dtype=np.uint32)
        self._kept_count = 0

    def add(self, patterns: Bits, largest: int) -> None:
        """More tokens: uint32 [N], with ``largest`` their :func:`largest_magnitude`; only finite ones count."""
        if largest >= INFINITY:
            patterns = patterns[bits.is_finite(patterns)]
        logprobs = bits.to_float32(patterns)
        if largest > _CLIP_BITS:
            logprobs = np.clip(logprobs, -_CLIP, _CLIP)
        scaled = logprobs * np.float32(_POINT)
        np.rint(scaled, out=scaled)
        # Whole numbers whose sum stays below 2^53 add exactly in float64, in whatever order.
        self._sum += int(scaled.sum(dtype=np.float64))
        self.tokens += patterns.size
        room = min(_PATTERNS_KEPT - self._kept_count, patterns.size)
        if room:
            self._kept[self._kept_count : self._kept_count + room] = patterns[:room]
            self._kept_count += room

    @property
    def mean_entropy(self) -> Fraction | None:
        """In nats; None without tokens."""
        return Fraction(-self._sum, self.tokens * _POINT) if self.tokens else None

    def distinct_patterns(self) -> tuple[int, int]:
        """How many distinct patterns there are among how many of the first tokens (at most 2^16, to bound memory)."""
        kept = np.sort(self._kept[: self._kept_count])
        return int(np.count_nonzero(kept[1:] != kept[:-1])) + bool(kept.size), self._kept_count


def largest_magnitude(patterns: Bits) -> int:
    """The largest pattern with its sign bit cleared, 0 of none: magnitudes are ordered as their patterns are."""
    return int((patterns & np.uint32(0x7FFF_FFFF)).max(initial=0))


def decimal_text(value: Fraction, places: int) -> str:
    """``value`` with exactly ``places`` decimals, halves to even."""
    scaled = round(value * 10**places)
    sign = "-" if scaled < 0 else ""
    whole, rest = divmod(abs(scaled), 10**places)
    return f"{sign}{whole}.{rest:0{places}d}"


def _k3(delta: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    # Near 0, exp(d) − 1 − d cancels to noise; its series does not.
    series = delta * delta / 2 * (1 + delta / 3 * (1 + delta / 4 * (1 + delta / 5 * (1 + delta / 6))))
    result: npt.NDArray[np.float64] = np.where(np.abs(delta) < _SMALL, series, np.expm1(delta) - delta)
    return result


def _digits(value: float) -> str:
    return f"{value:.3e}" if value else "0"
