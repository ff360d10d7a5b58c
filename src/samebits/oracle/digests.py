"""Digests of every side of a round, re-derived from the token rows: what the workers had committed to (rule 3)."""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from samebits.bits import Bits

SIDES: Final = ("rollout", "recompute", "train", "prefill")
"""In the order of the columns of the tokens table."""


class SideDigests:
    """sha256 over the patterns of each side of one round, as :func:`samebits.bits.digest` would make it.

    Sides that have agreed so far share one running hash, which is split where they part: in a run that passes, four
    digests cost one.
    """

    def __init__(self) -> None:
        self._groups: list[tuple[hashlib._Hash, list[str]]] = [(hashlib.sha256(), list(SIDES))]
        self._counts = dict.fromkeys(SIDES, 0)

    def add(self, patterns: dict[str, Bits]) -> None:
        """More tokens of each side.  Sides that are equal are handed over as one and the same array object."""
        groups = []
        for running, sides in self._groups:
            by_array: dict[int, list[str]] = {}
            for side in sides:
                by_array.setdefault(id(patterns[side]), []).append(side)
            parted = list(by_array.values())
            states = [running, *(running.copy() for _ in parted[1:])]
            for state, members in zip(states, parted, strict=True):
                state.update(np.ascontiguousarray(patterns[members[0]], dtype="<u4").data)
                groups.append((state, members))
        self._groups = groups
        for side in SIDES:
            self._counts[side] += patterns[side].size

    def hexdigests(self) -> dict[str, str]:
        """By side; a side without any pattern has no digest."""
        return {side: running.hexdigest() for running, sides in self._groups for side in sides if self._counts[side]}
