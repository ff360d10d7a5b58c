"""A run that is killed, interrupted or robbed of a worker: nothing half-written is believed, and it can go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .cli import TINY, Ended, descendants, samebits, start


def wait_for_phase(run: Path, phase: str, process: subprocess.Popen[str]) -> None:
    """Until the manifest names ``phase``."""
    for _ in range(6000):
        manifest = run / "run.json"
        if manifest.exists() and phase in json.loads(manifest.read_text())["phases"]:
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    raise AssertionError(f"{phase} was never reached")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def all_gone(pids: list[int]) -> bool:
    for _ in range(500):
        if not any(map(is_alive, pids)):
            return True
        time.sleep(0.02)
    return False


def begin(tmp_path: Path, home: Path, phase: str) -> tuple[subprocess.Popen[str], Path, list[int]]:
    process = start("certify", TINY, "--runs", tmp_path, "--run-id", "broken", "--json", home=home)
    run = tmp_path / "broken"
    wait_for_phase(run, phase, process)
    return process, run, descendants(process.pid)


def assert_no_certificate(run: Path) -> None:
    assert not (run / "certificate.sigstore.json").exists()
    assert not (run / "certificate.statement.json").exists()


def assert_resumes(run: Path, whole: tuple[Ended, Path], home: Path) -> None:
    """The resumed run passes, and its tokens are those of a run that nobody disturbed, byte for byte."""
    resumed = samebits("certify", "--resume", run, "--json", home=home)
    assert resumed.code == 0, resumed.stderr
    assert resumed.json["runs"][0]["findings"]["verdict"] == "passed"
    for name in ("tokens.parquet", "trajectories.parquet", "refits.parquet", "probes.parquet"):
        undisturbed = (whole[1] / "certificate.evidence" / name).read_bytes()
        assert (run / "certificate.evidence" / name).read_bytes() == undisturbed, name
    predicate = json.loads((run / "certificate.statement.json").read_text())["predicate"]
    assert predicate["run"]["resumed"] is True


@pytest.mark.parametrize("worker", ["engine", "actor"])
def test_a_killed_worker_ends_the_run_and_is_named(
    whole: tuple[Ended, Path], tmp_path: Path, home: Path, worker: str
) -> None:
    process, run, below = begin(tmp_path, home, "aligned-round-002")
    (victim,) = [
        pid
        for pid in below
        if f"samebits.{worker}.worker" in (words := Path(f"/proc/{pid}/cmdline").read_text())
        and "aligned" in words
        and "guardian.py" not in words
    ]
    os.kill(victim, signal.SIGKILL)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 3
    error = json.loads(out)
    assert error["error"] == "worker"
    assert f"{worker}-aligned" in error["field"]
    assert "SIGKILL" in error["found"]
    assert all_gone(below)
    assert_no_certificate(run)
    assert_resumes(run, whole, home)


def test_ctrl_c_leaves_nothing_half_written(whole: tuple[Ended, Path], tmp_path: Path, home: Path) -> None:
    process, run, below = begin(tmp_path, home, "aligned-round-001")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Interrupted" in err
    assert all_gone(below)
    assert_no_certificate(run)
    assert not list(run.rglob("*.partial"))
    assert_resumes(run, whole, home)


def test_a_parent_killed_at_once_takes_its_workers_along(whole: tuple[Ended, Path], tmp_path: Path, home: Path) -> None:
    process, run, below = begin(tmp_path, home, "aligned-load")
    process.kill()
    process.communicate(timeout=30)
    assert all_gone(below)
    assert_no_certificate(run)
    assert_resumes(run, whole, home)


def test_two_processes_do_not_share_a_run(tmp_path: Path, home: Path) -> None:
    process, run, _ = begin(tmp_path, home, "construct")
    second = samebits("certify", "--resume", run, "--json", home=home)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert second.code == 2
    assert second.json["found"] == "another process is running here"
