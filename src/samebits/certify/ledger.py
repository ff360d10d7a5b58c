"""One round's ledger: who committed to what, in which order it was revealed, and that each reveal keeps its word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from samebits import bits
from samebits.errors import WorkerError


class Ledger:
    """The order of commitments and reveals, and the check that each reveal keeps its word."""

    def __init__(self, arm: str, version: int) -> None:
        self._arm = arm
        self._round = version
        self._committed: dict[str, str] = {}
        self.rows: list[dict[str, Any]] = []

    def commit(self, side: str, digest: str) -> None:
        """``side`` has said what its patterns hash to."""
        self._committed[side] = digest
        self._note("commit", side, digest)

    def reveal(self, side: str, patterns: Sequence[Sequence[int]], lengths: Sequence[int]) -> list[list[int]]:
        """``patterns``, if they are those committed to, one for each of the ``lengths`` response tokens.

        Raises:
            WorkerError: they are not.
        """
        flat = np.array([pattern for row in patterns for pattern in row], dtype=np.uint32)
        digest = bits.digest(flat)
        self._note("reveal", side, digest)
        if digest != self._committed[side]:
            raise WorkerError(
                f"logprobs of {side} in round {self._round}",
                found=f"patterns that hash to {digest}",
                accepted=f"the committed {self._committed[side]}",
                next_step="The worker changed its logprobs after committing to them; its log may say why.",
            )
        found = [len(row) for row in patterns]
        if found != list(lengths):
            at = next((at for at, (one, other) in enumerate(zip(found, lengths, strict=False)) if one != other), None)
            where, one, other = (
                (f" in trajectory {at}", found[at], lengths[at]) if at is not None else ("", sum(found), sum(lengths))
            )
            raise WorkerError(
                f"logprobs of {side} in round {self._round}",
                found=f"{one} patterns{where}",
                accepted=f"{other}, one per response token",
                next_step="The worker lost or added tokens; its log may say why.",
            )
        return [list(row) for row in patterns]

    def _note(self, event: str, side: str, digest: str) -> None:
        self.rows.append(
            {
                "arm": self._arm,
                "round": self._round,
                "sequence": len(self.rows),
                "event": event,
                "side": side,
                "digest": digest,
            }
        )
