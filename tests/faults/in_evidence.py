"""Faults of the evidence: the run is stopped after the measuring, its folder is changed, and it is resumed.

``run.json`` knows the digest of every part, so whoever edits a part edits both; these do, but for the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from samebits import bits
from samebits.hashing import sha256_file
from samebits.oracle.writer import EvidenceWriter

from .fault import Check, Fault, Refused, Replayed

Rows = list[dict[str, Any]]


def _edit(run: Path, part: str, change: Callable[[Rows], Rows], *, with_manifest: bool = True) -> None:
    path = run / "parts" / f"{part}.parquet"
    table = pq.read_table(path)
    rows = change(table.to_pylist())
    phase, name = part.split(".")
    EvidenceWriter(run / "certificate.evidence", run / "parts").part(phase, {name: rows})
    if with_manifest:
        manifest = json.loads((run / "run.json").read_text())
        manifest["parts"][path.name] = sha256_file(path)
        (run / "run.json").write_text(json.dumps(manifest))


def _flip(rows: Rows) -> Rows:
    first = next(row for row in rows if row["mask"])
    first["train_bits"] ^= 1
    return rows


def a_part_changed(run: Path) -> None:
    _edit(run, "aligned-round-004.tokens", _flip, with_manifest=False)


def a_part_and_the_manifest_changed(run: Path) -> None:
    _edit(run, "aligned-round-004.tokens", _flip)


def no_tokens(run: Path) -> None:
    _edit(run, "aligned-round-004.tokens", lambda _: [])


def a_refit_twice(run: Path) -> None:
    _edit(run, "aligned-round-004.refits", lambda rows: rows + rows)


def a_position_shifted(run: Path) -> None:
    _edit(run, "aligned-round-004.tokens", lambda rows: [row | {"position": row["position"] + 1} for row in rows])


def exclusions_left_out(run: Path) -> None:
    _edit(run, "exclusions.refusals", lambda rows: rows[:-1])


def draws_made_up(run: Path) -> None:
    """As good a sample as the real one."""

    def change(rows: Rows) -> Rows:
        rows[0]["draws"] += 1
        rows[1]["draws"] -= 1
        return rows

    _edit(run, "sampler.sampler", change)


def forge(run: Path) -> None:
    """Another pattern for one token, the same on all sides, with commitments to match: nothing contradicts it."""
    part = "aligned-round-004"

    def other(rows: Rows) -> Rows:
        row = [row for row in rows if row["mask"]][-1]
        for side in ("rollout", "recompute", "train"):
            row[f"{side}_bits"] ^= 1
        return rows

    _edit(run, f"{part}.tokens", other)
    rows = pq.read_table(run / "parts" / f"{part}.tokens.parquet").to_pylist()

    def committed(ledger: Rows) -> Rows:
        for row in ledger:
            patterns = [one[f"{row['side']}_bits"] for one in rows if one["mask"]]
            row["digest"] = bits.digest(np.array(patterns, dtype=np.uint32))
        return ledger

    _edit(run, f"{part}.commitments", committed)


FAULTS = [
    Fault(
        name="a part of the evidence changed",
        by=Refused("input", r".*aligned-round-004\.tokens\.parquet"),
        between=a_part_changed,
    ),
    Fault(
        name="a part and the manifest changed together",
        by=Check("independence.commitments"),
        between=a_part_and_the_manifest_changed,
    ),
    Fault(name="a round without tokens", by=Check("tokens.aligned"), between=no_tokens),
    Fault(name="a refit entered twice", by=Check("refits.consecutive"), between=a_refit_twice),
    Fault(name="positions off by one", by=Check("tokens.aligned"), between=a_position_shifted),
    Fault(name="an exclusion not tried", by=Check("exclusions.refused"), between=exclusions_left_out),
    Fault(name="the sampler's draws made up", by=Replayed(), between=draws_made_up, needs_replay=True),
    Fault(name="evidence forged alike on all sides", by=Replayed(), between=forge, needs_replay=True),
]
