"""Rounds read back from assembled evidence: the parts of a finished run are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from samebits.certify.recorded import RecordedRound, round_of

Rows = list[dict[str, Any]]


class Recorded:
    """One arm's evidence."""

    def __init__(self, evidence: Path, arm: str) -> None:
        self._evidence = evidence
        self._arm = arm

    def round(self, number: int) -> RecordedRound:
        """Tokens, rewards and commitments of round ``number``; memory grows with that round's tokens."""
        return round_of(
            self._rows("tokens", ["trajectory", "token_id"], round=number),
            self._rows("trajectories", ["trajectory", "prompt_tokens", "group", "reward"], round=number),
            self._rows("commitments", ["event", "side", "digest"], round=number),
            name=f"{self._arm}-round-{number:03d}",
        )

    def refits(self, version: int) -> dict[str, tuple[str, ...]]:
        """Digests of policy ``version`` by tensor: master, sent, arrived, loaded."""
        return by_tensor(self._rows("refits", None, version=version))

    def _rows(self, table: str, columns: list[str] | None, **where: int) -> Rows:
        filters = [("arm", "=", self._arm), *((name, "=", value) for name, value in where.items())]
        found: Rows = pq.read_table(self._evidence / f"{table}.parquet", columns=columns, filters=filters).to_pylist()
        return found


def by_tensor(refits: Rows) -> dict[str, tuple[str, ...]]:
    """Rows of the refits table by tensor."""
    return {row["tensor"]: tuple(row[name] for name in ("master", "sent", "arrived", "loaded")) for row in refits}
