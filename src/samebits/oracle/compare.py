"""Two sides, token by token, as integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from samebits import bits
from samebits.bits import Bits
from samebits.oracle.findings import Mismatch
from samebits.oracle.observe import Divergence

Locate = Callable[[int], Mismatch]
"""Describes the token at an index of the arrays that are being compared."""

_SIGN = np.uint32(0x8000_0000)


class Pair:
    """Running comparison of two sides of one arm: counts, the first mismatch, the largest distance."""

    def __init__(self) -> None:
        self.compared = 0
        self.mismatches = 0
        self.non_finite = 0
        self.max_ulp = 0
        self.first: Mismatch | None = None
        self.divergence = Divergence()

    def add_equal(self, count: int) -> None:
        """``count`` tokens that are known to be finite and to have the same pattern on both sides."""
        self.compared += count

    def add(self, left: Bits, right: Bits, locate: Locate) -> None:
        """More tokens: uint32 [N] each, in order.  A pattern that is not finite never counts as equal (rule 2)."""
        finite = bits.is_finite(left) & bits.is_finite(right)
        different = left != right
        self.compared += left.size
        self.mismatches += int(np.count_nonzero(different))
        self.non_finite += int(left.size - np.count_nonzero(finite))
        wrong = different | ~finite
        if not wrong.any():
            return
        if self.first is None:
            self.first = locate(int(np.argmax(wrong)))
        left, right = left[different & finite], right[different & finite]
        if left.size:
            self.max_ulp = max(self.max_ulp, int(ulp_distance(left, right).max()))
            self.divergence.add(left, right)


class Agreement:
    """Running comparison of several sides at once: a token counts once, however many of its sides stray."""

    def __init__(self) -> None:
        self.compared = 0
        self.mismatches = 0
        self.non_finite = 0
        self.first: Mismatch | None = None

    def add_equal(self, count: int) -> None:
        """As :meth:`Pair.add_equal`."""
        self.compared += count

    def add(self, sides: list[Bits], locate: Locate) -> None:
        """More tokens: uint32 [N] per side, in order."""
        different = np.zeros(sides[0].size, dtype=np.bool_)
        finite = np.ones(sides[0].size, dtype=np.bool_)
        for side in sides:
            different |= side != sides[0]
            finite &= bits.is_finite(side)
        self.compared += different.size
        self.mismatches += int(np.count_nonzero(different))
        self.non_finite += int(np.count_nonzero(~finite))
        wrong = different | ~finite
        if self.first is None and wrong.any():
            self.first = locate(int(np.argmax(wrong)))


def ulp_distance(left: Bits, right: Bits) -> npt.NDArray[np.int64]:
    """How many representable fp32 values apart, element by element; −0.0 and +0.0 are one apart. Finite values only."""
    distance: npt.NDArray[np.int64] = np.abs(_ordered(left) - _ordered(right))
    return distance


def _ordered(patterns: Bits) -> npt.NDArray[np.int64]:
    # Patterns of negative values count backwards; mirrored, all of fp32 is in order.
    mirrored = np.where(patterns & _SIGN, ~patterns, patterns | _SIGN)
    return mirrored.astype(np.int64)
