"""The evidence of one round, read back: tokens and patterns of the aligned arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from samebits.actor.protocol import Tokens
from samebits.certify.recorded import tokens_of

ARM: Final = "aligned"
SIDES: Final = ("rollout", "recompute", "train", "prefill")

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """In request order."""

    rows: list[Row]
    """Of the trajectories table."""
    trajectories: list[Tokens]
    patterns: dict[str, list[list[int | None]]]
    """By side, of response tokens; a side that was not scored has None throughout."""

    def patterns_of(self, side: str, chosen: Sequence[int]) -> dict[int, list[int | None]]:
        """Of the trajectories ``chosen``."""
        return {index: self.patterns[side][index] for index in chosen}

    @property
    def starts(self) -> dict[int, int]:
        """Where each response begins."""
        return {index: one.prompt_length for index, one in enumerate(self.trajectories)}

    @property
    def rewards(self) -> list[float]:
        return [float(row["reward"]) for row in self.rows]


class Recorded:
    """One evidence folder that has been verified."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def trajectories(self) -> dict[int, int]:
        """How many each round has."""
        rows = pq.read_table(self._path("trajectories"), columns=["arm", "round"]).to_pylist()
        return dict(sorted(Counter(row["round"] for row in rows if row["arm"] == ARM).items()))

    def round(self, number: int) -> Round:
        """Memory grows with one round's tokens."""
        rows = self._rows("trajectories", number)
        token_ids: list[list[int]] = [[] for _ in rows]
        patterns: dict[str, list[list[int | None]]] = {side: [[] for _ in rows] for side in SIDES}
        for token in self._rows("tokens", number):
            index = token["trajectory"]
            token_ids[index].append(token["token_id"])
            if token["mask"]:
                for side in SIDES:
                    patterns[side][index].append(token[f"{side}_bits"])
        trajectories = tokens_of(rows, dict(enumerate(token_ids)), name=f"round-{number}")
        return Round(rows=rows, trajectories=trajectories, patterns=patterns)

    def refits(self, version: int) -> dict[str, str]:
        """Digests of policy ``version``: ``TENSOR: sent`` and so on."""
        table = pq.read_table(self._path("refits"), filters=[("arm", "=", ARM), ("version", "=", version)])
        return flat(table.to_pylist())

    def sampler(self) -> list[Row]:
        """The sampler's own test: draws by token."""
        rows: list[Row] = pq.read_table(self._path("sampler")).to_pylist()
        return rows

    def _rows(self, table: str, number: int) -> list[Row]:
        found: list[Row] = pq.read_table(
            self._path(table), filters=[("arm", "=", ARM), ("round", "=", number)]
        ).to_pylist()
        return found

    def _path(self, table: str) -> Path:
        return self._folder / f"{table}.parquet"


def flat(refits: Sequence[Row]) -> dict[str, str]:
    """Rows of the refits table by tensor and digest."""
    return {f"{row['tensor']}: {name}": row[name] for row in refits for name in ("master", "sent", "arrived", "loaded")}
