"""Pieces of a run that no whole run can show to fail."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from samebits import bits
from samebits.certify import folder
from samebits.certify.clock import Clock
from samebits.certify.folder import Manifest
from samebits.certify.phases import _spread
from samebits.certify.round import _Ledger
from samebits.errors import InputError, WorkerError


def manifest() -> Manifest:
    return Manifest(
        run_id="r",
        recipe="tiny",
        recipe_sha256="0" * 64,
        row="cpu",
        row_sha256="0" * 64,
        kit_sha256="0" * 64,
        started_on="2026-11-30T00:00:00Z",
    )


def test_patterns_that_were_not_committed_to_are_not_taken() -> None:
    ledger = _Ledger("aligned", 3)
    committed = bits.digest(np.array([1, 2], dtype=np.uint32))
    ledger.commit("recompute", committed)
    with pytest.raises(WorkerError) as raised:
        ledger.reveal("recompute", [[1], [3]])
    changed = bits.digest(np.array([1, 3], dtype=np.uint32))
    assert raised.value.field == "logprobs of recompute in round 3"
    assert raised.value.found == f"patterns that hash to {changed}"
    assert raised.value.accepted == f"the committed {committed}"


def test_the_ledger_keeps_the_order() -> None:
    ledger = _Ledger("aligned", 0)
    digest = bits.digest(np.array([7], dtype=np.uint32))
    ledger.commit("rollout", digest)
    ledger.commit("recompute", digest)
    ledger.reveal("rollout", [[7]])
    assert [(row["sequence"], row["event"], row["side"]) for row in ledger.rows] == [
        (0, "commit", "rollout"),
        (1, "commit", "recompute"),
        (2, "reveal", "rollout"),
    ]


def test_a_phase_that_raises_is_not_done(tmp_path: Path) -> None:
    with folder.create(tmp_path / "run", manifest()) as run:
        run.finish("construct", prepared={"layers": 2})
    with folder.reopen(tmp_path / "run") as run:
        assert run.is_done("construct")
        assert not run.is_done("judged")
        assert run.manifest.phases["construct"] == {"prepared": {"layers": 2}}


def test_a_truncated_manifest_is_no_run(tmp_path: Path) -> None:
    with folder.create(tmp_path / "run", manifest()):
        pass
    path = tmp_path / "run" / "run.json"
    path.write_text(path.read_text()[:-9])
    with pytest.raises(InputError) as raised, folder.reopen(tmp_path / "run"):
        pass
    assert raised.value.accepted == "the folder of an unfinished run"


def test_a_manifest_with_a_stranger_s_key_is_no_run(tmp_path: Path) -> None:
    with folder.create(tmp_path / "run", manifest()):
        pass
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "verdict": "passed"}))
    with pytest.raises(InputError), folder.reopen(tmp_path / "run"):
        pass


def test_a_clock_adds_up_a_phase() -> None:
    clock = Clock("aligned", 4)
    for _ in range(2):
        with clock.phase("oracle", "parent"):
            pass
    assert [(row["round"], row["phase"], row["worker"]) for row in clock.rows] == [(4, "oracle", "parent")] * 2
    assert clock.seconds("oracle") == sum(row["nanoseconds"] for row in clock.rows) / 1e9
    assert clock.seconds("step") == 0


@pytest.mark.parametrize(
    ("count", "total", "rounds"), [(1, 11, [0]), (2, 11, [0, 5]), (3, 11, [0, 3, 7]), (4, 3, [0, 1, 2])]
)
def test_control_rounds_are_spread_evenly(count: int, total: int, rounds: list[int]) -> None:
    assert _spread(count, total) == rounds
