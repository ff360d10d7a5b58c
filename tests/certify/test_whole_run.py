"""A certification as its user types it, from the recipe to a certificate that a stranger checks."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from .cli import TINY, Ended, samebits

REFITS = 10


def test_passes_and_says_what_it_compared(whole: tuple[Ended, Path]) -> None:
    ended, _ = whole
    assert ended.code == 0, ended.stderr
    (run,) = ended.json["runs"]
    findings = run["findings"]
    assert findings["verdict"] == "passed"
    assert findings["exactness"]["mismatches"] == 0
    assert findings["exactness"]["compared"] >= 300
    assert findings["refits"]["refits"] == REFITS
    assert all(exclusion["refused"] for exclusion in findings["exclusions"])


def test_a_setting_that_nobody_knows_was_refused_by_name(whole: tuple[Ended, Path]) -> None:
    """A recipe cannot name one, so the run tries it by itself: in each process, and in a request."""
    refusals = pq.read_table(whole[1] / "certificate.evidence" / "refusals.parquet").to_pylist()
    unknown = [row for row in refusals if row["set"] == '{"samebits_unknown": true}']
    assert [(row["kind"], row["refused"], row["by"], row["field"]) for row in unknown] == [
        ("engine", True, "gate", "engine.samebits_unknown"),
        ("actor", True, "gate", "actor.samebits_unknown"),
        ("request", True, "gate", "request 'excluded': samebits_unknown"),
    ]
    assert "found an unknown setting; accepted: " in unknown[0]["message"]


def test_the_control_arm_differs_from_itself_and_across(whole: tuple[Ended, Path]) -> None:
    findings = whole[0].json["runs"][0]["findings"]
    differing = {
        (oracle["left"], oracle["right"]): oracle["mismatches"]
        for oracle in findings["oracles"]
        if oracle["arm"] == "control"
    }
    assert differing["rollout", "prefill"] > 0
    assert differing["rollout", "recompute"] > 0


def test_leaves_only_what_somebody_needs(whole: tuple[Ended, Path]) -> None:
    _, run = whole
    names = {path.name for path in run.iterdir() if path.name != ".lock"}
    assert names == {
        "certificate.evidence",
        "certificate.sigstore.json",
        "certificate.statement.json",
        "logs",
        "model.json",
        "run.json",
    }


def test_evidence_holds_every_token_of_every_round(whole: tuple[Ended, Path]) -> None:
    tokens = pq.read_table(whole[1] / "certificate.evidence" / "tokens.parquet").to_pylist()
    aligned = [row for row in tokens if row["arm"] == "aligned"]
    assert {row["round"] for row in aligned} == set(range(REFITS + 1))
    for row in aligned:
        scored = ("prefill",) if row["round"] in {0, REFITS} else ()
        sides = {row[f"{side}_bits"] for side in ("rollout", "recompute", "train", *scored)}
        assert (sides != {None}) == row["mask"]
        assert len(sides) == 1


def test_a_stranger_verifies_it(whole: tuple[Ended, Path], home: Path) -> None:
    _, run = whole
    key = home / "config" / "samebits" / "keys" / "default.pub.pem"
    report = samebits("verify", run / "certificate.sigstore.json", "--key", key, "--json", home=home)
    assert report.code == 0, report.stderr
    assert report.json["verdict"] == "passed"
    bases = {claim["basis"] for claim in report.json["claims"]}
    assert bases == {"derived", "attested"}


def test_a_replay_confirms_it(whole: tuple[Ended, Path], home: Path) -> None:
    key = home / "config" / "samebits" / "keys" / "default.pub.pem"
    path = whole[1] / "certificate.sigstore.json"
    ended = samebits("replay", path, "--key", key, "-k", "3", "--seed", "1", "--rounds", "2", "--json", home=home)
    assert ended.code == 0, ended.stdout
    replayed = ended.json
    assert (replayed["verdict"], replayed["differences"], replayed["sameKit"]) == ("confirmed", [], True)
    assert replayed["coverage"]["rounds"] == 2
    assert replayed["coverage"]["compared"]["recompute"] == replayed["coverage"]["compared"]["train"] > 0
    assert [chance["probability"] for chance in replayed["chances"]] == ["0.2500", "0.4545"]


def test_what_does_not_verify_is_not_replayed(whole: tuple[Ended, Path], home: Path, tmp_path: Path) -> None:
    samebits("keygen", "other", "--folder", tmp_path, home=home)
    certificate = whole[1] / "certificate.sigstore.json"
    ended = samebits("replay", certificate, "--key", tmp_path / "other.pub.pem", "--json", home=home)
    assert (ended.code, ended.json["error"]) == (2, "invalid")


def test_another_key_is_not_believed(whole: tuple[Ended, Path], home: Path, tmp_path: Path) -> None:
    samebits("keygen", "stranger", "--folder", tmp_path, home=home)
    certificate = whole[1] / "certificate.sigstore.json"
    assert samebits("verify", certificate, "--key", tmp_path / "stranger.pub.pem", home=home).code == 2


@pytest.mark.parametrize("name", ["tokens.parquet", "recipe.toml", "row.toml", "refusals.parquet"])
def test_one_changed_byte_of_evidence_is_not_believed(
    whole: tuple[Ended, Path], home: Path, tmp_path: Path, name: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole[1], copy)
    path = copy / "certificate.evidence" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    key = home / "config" / "samebits" / "keys" / "default.pub.pem"
    assert samebits("verify", copy / "certificate.sigstore.json", "--key", key, home=home).code == 2


def test_a_finished_run_whose_evidence_changed_is_not_resumed(
    whole: tuple[Ended, Path], home: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole[1], copy)
    (copy / "certificate.evidence" / "probes.parquet").write_bytes(b"other")
    again = samebits("certify", "--resume", copy, "--unsigned", "--json", home=home)
    assert (again.code, again.json["error"]) == (2, "invalid")


@pytest.mark.parametrize("name", ["../../x", "a/b", "/x", "ü", "", "_x", ".x", "a..b", "x" * 129])
def test_a_run_id_is_a_plain_name(home: Path, tmp_path: Path, name: str) -> None:
    ended = samebits("certify", TINY, "--runs", tmp_path / "runs", "--run-id", name, "--json", home=home)
    assert (ended.code, ended.json["field"]) == (2, "--run-id")
    assert not (tmp_path / "runs").exists()


def test_a_key_that_cannot_be_used_is_found_before_the_run(home: Path, tmp_path: Path) -> None:
    ended = samebits("certify", TINY, "--runs", tmp_path / "runs", "--key", tmp_path / "none.pem", "--json", home=home)
    assert (ended.code, ended.json["field"]) == (2, str(tmp_path / "none.pem"))
    assert not (tmp_path / "runs").exists()


def test_a_second_run_in_the_same_folder_is_refused(whole: tuple[Ended, Path], home: Path) -> None:
    _, run = whole
    again = samebits("certify", TINY, "--runs", run.parent, "--run-id", run.name, "--json", home=home)
    assert again.code == 2
    assert again.json == {
        "error": "input",
        "field": f"run folder {run}",
        "found": "a folder that is not empty",
        "accepted": "a new folder",
        "next_step": f"Choose another --run-id, or continue it with --resume {run}.",
    }


def test_a_learning_rate_of_zero_proves_nothing(home: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "still.toml"
    text = TINY.read_text().replace('id = "tiny"', 'id = "still"')
    recipe.write_text(re.sub(r"learning_rate = \S+", "learning_rate = 0.0", text))
    ended = samebits("certify", recipe, "--runs", tmp_path, "--run-id", "still", "--json", home=home)
    assert ended.code == 1, ended.stderr
    findings = ended.json["runs"][0]["findings"]
    assert findings["verdict"] == "failed"
    assert any(reason.startswith("refits.masters: failed") for reason in findings["reasons"])
    key = home / "config" / "samebits" / "keys" / "default.pub.pem"
    certificate = tmp_path / "still" / "certificate.sigstore.json"
    assert samebits("verify", certificate, "--key", key, home=home).code == 1


def test_show_prints_without_a_key(whole: tuple[Ended, Path], home: Path) -> None:
    shown = samebits("show", whole[1] / "certificate.sigstore.json", "--json", home=home)
    assert shown.code == 0
    assert shown.json["predicate"]["recipe"]["id"] == "tiny"
    assert json.loads((whole[1] / "run.json").read_text())["phases"]["judged"] == {"verdict": "passed"}


def test_a_finished_run_resumes_to_the_same_certificate(whole: tuple[Ended, Path], home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole[1], copy)
    before = {path.name: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name != ".lock"}
    again = samebits("certify", "--resume", copy, "--json", home=home)
    assert again.code == 0, again.stderr
    after = {path.name: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name != ".lock"}
    assert after == before
