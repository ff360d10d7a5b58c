"""The streaming oracle against a slow one that looks at each row in turn, whatever the batches are."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits import bits
from samebits.oracle import evidence, writer
from simulator import SIDES, Simulator

PATTERNS = st.sampled_from([0, 0x8000_0000, 0x7FC0_0000, 0xFF80_0000, 0xBF80_0000, 0xBF80_0001])
CHANGES = st.lists(st.tuples(st.integers(0, 593), st.sampled_from(SIDES), PATTERNS), max_size=12)
PAIRS = (("rollout", "recompute"), ("recompute", "train"), ("rollout", "train"), ("rollout", "prefill"))


def slow(world: Simulator, left: str, right: str) -> tuple[int, int, int]:
    rows = [(row[f"{left}_bits"], row[f"{right}_bits"]) for row in world.response()]
    finite = bits.is_finite(np.array(rows, dtype=np.uint32)).all(axis=1)
    return len(rows), sum(one != other for one, other in rows), int(np.count_nonzero(~finite))


@settings(max_examples=10, deadline=None)
@given(changes=CHANGES, batch=st.integers(20, 1200), group=st.integers(40, 1200))
def test_counts_are_those_of_the_slow_oracle_in_any_batches(
    changes: list[tuple[int, str, int]], batch: int, group: int
) -> None:
    world = Simulator()
    response = world.response()
    for index, side, pattern in changes:
        response[index][f"{side}_bits"] = pattern
    world.seal()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(writer, "ROW_GROUP_ROWS", group)
        whole = world.judge(Path(folder) / "whole").to_dict()
        patch.setattr(evidence, "BATCH_ROWS", batch)
        assert world.judge(Path(folder) / "pieces").to_dict() == whole
    found = {oracle["name"]: oracle for oracle in whole["oracles"] if oracle["arm"] == "aligned"}
    for left, right in PAIRS:
        oracle = found[f"{left}/{right}"]
        assert (oracle["compared"], oracle["mismatches"], oracle["nonFinite"]) == slow(world, left, right)
    broken = [row for row in response if not _agree(row)]
    assert (whole["exactness"]["verdict"], whole["exactness"]["mismatches"] + whole["exactness"]["nonFinite"] > 0) == (
        ("failed", True) if broken else ("passed", False)
    )
    first = whole["exactness"]["firstMismatch"]
    assert (first and (first["round"], first["trajectory"], first["position"])) == (
        (broken[0]["round"], broken[0]["trajectory"], broken[0]["position"]) if broken else None
    )
    commitments = {check["name"]: check["status"] for check in whole["checks"]}["independence.commitments"]
    assert commitments == "passed"


def _agree(row: dict[str, int]) -> bool:
    sides = {row[f"{side}_bits"] for side in SIDES[:3]}
    return len(sides) == 1 and bool(bits.is_finite(np.array(list(sides), dtype=np.uint32)).all())
