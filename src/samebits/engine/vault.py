"""Logprobs that were computed and are not shown yet (rule 3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits import bits
from samebits.bits import Bits
from samebits.engine.protocol import Sealed
from samebits.errors import InputError


class Vault:
    """Patterns by their commitment: the digest over all of them, sequences concatenated in request order."""

    def __init__(self) -> None:
        self._patterns: dict[str, list[Bits]] = {}

    def seal(self, patterns: Sequence[Bits], *, seconds: float) -> Sealed:
        """Put away ``patterns``, one array per sequence; only their digest and number leave."""
        whole = np.concatenate([np.empty(0, dtype=np.uint32), *patterns])
        sealed = Sealed(commitment=bits.digest(whole), tokens=len(whole), seconds=seconds)
        self._patterns[sealed.commitment] = list(patterns)
        return sealed

    def reveal(self, commitment: str) -> list[list[int]]:
        """The patterns behind ``commitment``, per sequence.

        Raises:
            InputError: this engine never committed to that.
        """
        if commitment not in self._patterns:
            raise InputError(
                "reveal.commitment",
                found=commitment,
                accepted="a commitment that this engine returned",
                next_step="Ask for the commitment of a generate or score call since the engine was constructed.",
            )
        return [pattern.tolist() for pattern in self._patterns[commitment]]
