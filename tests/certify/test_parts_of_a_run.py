"""Pieces of a run that no whole run can show to fail."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from samebits import bits
from samebits.certify import folder
from samebits.certify.clock import Clock
from samebits.certify.folder import Manifest
from samebits.certify.ledger import Ledger
from samebits.certify.phases import _spread
from samebits.certify.round import check_answered
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
    ledger = Ledger("aligned", 3)
    committed = bits.digest(np.array([1, 2], dtype=np.uint32))
    ledger.commit("recompute", committed)
    with pytest.raises(WorkerError) as raised:
        ledger.reveal("recompute", [[1], [3]], [1, 1])
    changed = bits.digest(np.array([1, 3], dtype=np.uint32))
    assert raised.value.field == "logprobs of recompute in round 3"
    assert raised.value.found == f"patterns that hash to {changed}"
    assert raised.value.accepted == f"the committed {committed}"


@pytest.mark.parametrize(
    ("lengths", "found", "accepted"),
    [
        ([1, 2], "1 patterns in trajectory 1", "2, one per response token"),
        ([1], "2 patterns", "1, one per response token"),
        ([1, 1, 1], "2 patterns", "3, one per response token"),
    ],
)
def test_a_pattern_for_each_token(lengths: list[int], found: str, accepted: str) -> None:
    ledger = Ledger("aligned", 3)
    ledger.commit("train", bits.digest(np.array([1, 2], dtype=np.uint32)))
    with pytest.raises(WorkerError) as raised:
        ledger.reveal("train", [[1], [2]], lengths)
    assert (raised.value.field, raised.value.found, raised.value.accepted) == (
        "logprobs of train in round 3",
        found,
        accepted,
    )


@pytest.mark.parametrize(
    ("answered", "found", "accepted"),
    [
        (["a"], "1, number 1 is 'missing'", "2, one per request in order; number 1 is 'b'"),
        (["b", "a"], "2, number 0 is 'b'", "2, one per request in order; number 0 is 'a'"),
        (["a", "b", "c"], "3, number 2 is 'c'", "2, one per request in order; number 2 does not exist"),
    ],
)
def test_every_request_is_answered_in_order(answered: list[str], found: str, accepted: str) -> None:
    prompts = [SimpleNamespace(request_id=name) for name in "ab"]
    with pytest.raises(WorkerError) as raised:
        check_answered(prompts, [SimpleNamespace(request_id=name) for name in answered])
    assert (raised.value.found, raised.value.accepted) == (found, accepted)


def test_the_ledger_keeps_the_order() -> None:
    ledger = Ledger("aligned", 0)
    digest = bits.digest(np.array([7], dtype=np.uint32))
    ledger.commit("rollout", digest)
    ledger.commit("recompute", digest)
    ledger.reveal("rollout", [[7]], [1])
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


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "{",
        '{"phases": []}',
        "[" * 100_000,
    ],
)
def test_a_manifest_that_nobody_wrote(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError) as raised, folder.reopen(tmp_path):
        pass
    assert raised.value.field == f"run folder {tmp_path}"
    assert raised.value.found.startswith("no readable run.json (")


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"phases": []}, "phases is not a dict"),
        ({"phases": {"construct": 5}}, "phase construct is not a phase"),
        ({"phases": {"aligned-round-003": {"stepped": 1, "weights_sha256": ""}}}, "phase aligned-round-003 is not"),
        ({"phases": {"measured": {"on": "2026-11-30T00:00:00Z"}}}, "a run that was measured and never constructed"),
        ({"parts": {"../tokens.parquet": "0"}}, "parts are not digests by file name"),
        ({"run_id": 3}, "run_id is not a str"),
        ({"colour": "red"}, "not an object with run_id, recipe"),
    ],
)
def test_a_manifest_that_was_edited(tmp_path: Path, changed: dict[str, object], found: str) -> None:
    with folder.create(tmp_path / "run", manifest()):
        pass
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(InputError) as raised, folder.reopen(tmp_path / "run"):
        pass
    assert raised.value.found.startswith(f"no readable run.json ({found}")


def test_parts_are_known_again(tmp_path: Path) -> None:
    with folder.create(tmp_path / "run", manifest()) as run:
        part = run.parts / "sampler.sampler.parquet"
        part.write_bytes(b"as measured")
        run.finish("sampler")
    with folder.reopen(tmp_path / "run") as run:
        run.check_parts()
        part.write_bytes(b"as wished")
        with pytest.raises(InputError) as raised:
            run.check_parts()
        assert raised.value.field == str(part)
        part.unlink()
        with pytest.raises(InputError, match="found no such file"):
            run.check_parts()


def test_a_file_where_the_run_folder_belongs(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(InputError) as raised, folder.create(tmp_path / "run", manifest()):
        pass
    assert raised.value.found == "File exists"


def test_what_a_killed_process_left_half_written_is_swept_away(tmp_path: Path) -> None:
    with folder.create(tmp_path / "run", manifest()) as run:
        kept = {path.relative_to(run.path) for path in run.path.rglob("*")}
        for name in (
            ".run.json.k3j4",
            ".certificate.sigstore.json.x",
            ".weights.safetensors.7.partial",
            "certificate.evidence/.tokens.parquet.partial",
        ):
            (run.path / name).touch()
    with folder.reopen(tmp_path / "run") as run:
        assert {path.relative_to(run.path) for path in run.path.rglob("*")} == kept
