"""However a parent ends, its worker is gone and no file is half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from samebits.spool import Terminated, Worker, lifeline, reaping
from samebits.spool.folder import Folder

Tell = Callable[[int], bool]
PARENT = Path(__file__).with_name("parent.py")


@pytest.fixture
def parent(tmp_path: Path, program: Path) -> Iterator[Callable[[str], tuple[subprocess.Popen[str], int]]]:
    """Starts a parent; returns it and its worker's pid, once the worker is inside a call."""
    started: list[subprocess.Popen[str]] = []

    def start(way: str) -> tuple[subprocess.Popen[str], int]:
        command = [sys.executable, str(PARENT), str(tmp_path / "spool"), str(program), way]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        started.append(process)
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        call = {"deaf": 3, "descendants-group": 4, "descendants-session": 4}.get(way, 2)
        while not (tmp_path / "spool" / "progress" / f"{call:06}.json").exists():
            time.sleep(0.01)
        return process, pid

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def assert_whole(spool: Path) -> None:
    assert list(spool.rglob(".*.tmp")) == []
    for file in spool.rglob("*.json"):
        json.loads(file.read_bytes())


@pytest.mark.parametrize("way", ["reaping", "bare", "wrapped", "deaf"])
def test_a_parent_killed_outright_leaves_no_orphan(
    parent: Callable[[str], tuple[subprocess.Popen[str], int]], ends: Tell, way: str
) -> None:
    process, worker = parent(way)
    process.kill()
    assert ends(worker)


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -signal.SIGINT)],
)
def test_a_parent_told_to_end_leaves_no_orphan_and_no_half_file(
    parent: Callable[[str], tuple[subprocess.Popen[str], int]],
    is_running: Tell,
    tmp_path: Path,
    number: signal.Signals,
    status: int,
) -> None:
    process, worker = parent("reaping")
    process.send_signal(number)
    assert process.wait(30) == status
    assert not is_running(worker)
    assert_whole(tmp_path / "spool")


def test_a_second_signal_kills_without_asking(
    parent: Callable[[str], tuple[subprocess.Popen[str], int]], is_running: Tell
) -> None:
    process, worker = parent("deaf")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)  # the parent now waits for a worker that does not listen
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    assert not is_running(worker)


def test_reaping_ends_workers_left_behind_and_restores_the_handlers(
    start: Callable[..., Worker], is_running: Tell
) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    outside = start()
    with reaping():
        assert [signal.getsignal(number) for number in numbers] != before
        inside = start()
    assert [signal.getsignal(number) for number in numbers] == before
    assert not is_running(inside.pid)
    assert outside.call("echo", {"still": "here"}) == {"still": "here"}


def test_sigterm_is_an_exception_with_the_exit_status() -> None:
    with pytest.raises(Terminated) as caught, reaping():
        signal.raise_signal(signal.SIGTERM)
    assert (caught.value.code, caught.value.signal) == (143, signal.SIGTERM)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with reaping():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_parent_in_another_pid_namespace_is_judged_by_its_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path)
    folder.parent.write_text('{"protocol":1,"pid":1,"beat":1,"whereabouts":"another machine"}')
    watching = lifeline.Lifeline(folder)
    assert not watching._orphaned()
    monkeypatch.setattr(lifeline, "PARENT_SILENCE", 0.0)
    time.sleep(0.01)
    assert watching._orphaned()
    folder.parent.write_text('{"protocol":1,"pid":1,"beat":2,"whereabouts":"another machine"}')
    assert not watching._orphaned()


def test_a_zombie_parent_is_dead() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    os.kill(process.pid, 0)  # a signal finds it
    assert not lifeline._is_alive(process.pid)
    process.wait()
    assert lifeline._is_alive(os.getpid())


@pytest.mark.parametrize("where", ["group", "session"])
def test_a_parent_killed_outright_takes_its_workers_descendants_along(
    parent: Callable[[str], tuple[subprocess.Popen[str], int]], ends: Tell, tmp_path: Path, where: str
) -> None:
    """The kernel kills a worker with its parent, and nobody below it: an engine's own processes would stay."""
    process, worker = parent(f"descendants-{where}")
    below = [int(pid) for pid in (tmp_path / "descendants").read_text().split()]
    assert len(below) == 2
    process.kill()
    assert [ends(pid) for pid in (worker, *below)] == [True, True, True]
