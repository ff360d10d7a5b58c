"""The first differing token that the evidence has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from samebits import bits
from samebits.errors import InputError
from samebits.oracle import EvidenceReader

OTHERS: Final = ("prefill", "recompute", "train")
"""What a rollout is held against, the engine's own side first."""
SIDES: Final = ("rollout", *OTHERS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Differing:
    """One token whose patterns are not the same on all sides that computed it."""

    arm: str
    round: int
    trajectory: int
    position: int
    token_id: int
    patterns: dict[str, int | None]
    """By side; None where a side was not computed."""

    @property
    def other(self) -> str:
        """The side to hold against the rollout: the first that differs from it."""
        rollout = self.patterns["rollout"]
        return next(side for side in OTHERS if self.patterns[side] not in (None, rollout))

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-ready object."""
        return {
            "arm": self.arm,
            "round": self.round,
            "trajectory": self.trajectory,
            "position": self.position,
            "token": self.token_id,
            "bits": {side: None if one is None else bits.to_hex(one) for side, one in self.patterns.items()},
            "left": "rollout",
            "right": self.other,
        }


def first_differing(evidence: Path, arm: str) -> Differing:
    """The first token, in the order of the tokens table, at which a side differs from the rollout.

    Raises:
        InputError: there is none, so there is nothing to explain; or the folder holds no evidence.
    """
    columns = ["arm", "round", "trajectory", "position", "token_id", *(f"{side}_bits" for side in SIDES)]
    for batch in EvidenceReader(evidence).batches("tokens", columns):
        table = pa.Table.from_batches([batch]).filter(pc.equal(batch.column("arm"), arm))
        rollout = table.column("rollout_bits")
        differs = np.zeros(len(table), dtype=np.bool_)
        for side in OTHERS:
            unequal = pc.not_equal(rollout, table.column(f"{side}_bits"))
            differs |= np.asarray(pc.fill_null(unequal, False))
        if differs.any():
            (row,) = table.slice(int(np.argmax(differs)), 1).to_pylist()
            return Differing(
                **{name: row[name] for name in columns[:5]}, patterns={side: row[f"{side}_bits"] for side in SIDES}
            )
    raise InputError(
        f"arm {arm}",
        found="no token on which the sides differ",
        accepted="a run with a mismatch",
        next_step="There is nothing to explain: `samebits show` says why the run did not pass, if it did not.",
    )
