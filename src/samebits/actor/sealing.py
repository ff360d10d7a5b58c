"""Logprobs that were computed and not shown yet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits import bits
from samebits.actor.protocol import Sealed
from samebits.bits import Bits
from samebits.errors import InputError


def seal(patterns: Sequence[Bits], seconds: float) -> Sealed:
    """The commitment over ``patterns``, trajectories concatenated in request order."""
    joined = np.concatenate(patterns)
    return Sealed(commitment=bits.digest(joined), tokens=len(joined), seconds=seconds)


class Vault:
    """Patterns of the current policy version, each under its commitment.

    Where recompute and training forward have the same bits they have the same commitment, and one entry is both.
    """

    def __init__(self) -> None:
        self._patterns: dict[str, list[Bits]] = {}

    def put(self, sealed: Sealed, patterns: list[Bits]) -> None:
        """Keep ``patterns`` until the next policy version."""
        self._patterns[sealed.commitment] = patterns

    def reveal(self, commitment: str) -> list[list[int]]:
        """The patterns under ``commitment``, per trajectory.

        Raises:
            InputError: nothing of this policy version has that commitment.
        """
        if commitment not in self._patterns:
            raise InputError(
                "commitment",
                found=commitment,
                accepted=", ".join(self._patterns) or "nothing: no logprobs are sealed",
                next_step="Reveal what recompute or train_forward of this policy version committed to.",
            )
        return to_lists(self._patterns[commitment])

    def clear(self) -> None:
        """Forget everything."""
        self._patterns.clear()


def to_lists(patterns: Sequence[Bits]) -> list[list[int]]:
    """Patterns as JSON can carry them."""
    return [trajectory.tolist() for trajectory in patterns]
