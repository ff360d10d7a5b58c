"""A worker that dies, hangs, or is told to end: what the parent says, and that nothing is left."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from samebits.errors import MachineError, SamebitsError, WorkerError
from samebits.spool import Worker
from samebits.spool import worker as worker_module

Start = Callable[..., Worker]
Tell = Callable[[int], bool]
CLASSES = ["SamebitsError", "InputError", "GateError", "RowError", "InvalidCertificate", "MachineError", "WorkerError"]


def fields(error: SamebitsError) -> tuple[str, str, str, str]:
    return error.field, error.found, error.accepted, error.next_step


def line_of(program: Path, text: str) -> int:
    return next(number for number, line in enumerate(program.read_text().splitlines(), 1) if text in line)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT"])
def test_a_killed_worker_is_reported_with_its_signal_and_log(start: Start, tmp_path: Path, name: str) -> None:
    worker = start()
    with pytest.raises(WorkerError) as caught:
        worker.call("kill", {"signal": name})
    assert fields(caught.value)[:3] == ("worker tester", f"killed by {name} during 'kill'", "a reply")
    assert caught.value.next_step.startswith(f"Its log, {tmp_path / 'tester.log'}, ends:\n  the last words")
    with pytest.raises(WorkerError) as again:
        worker.call("echo", {})
    assert again.value.found == f"killed by {name} during 'kill'"
    assert again.value.accepted == "a worker that runs, to call 'echo'"
    assert worker.stop() == -getattr(signal, name)


def test_a_segmentation_fault_leaves_its_place_in_the_log(start: Start, program: Path) -> None:
    with pytest.raises(WorkerError) as caught:
        start().call("crash", {})
    assert caught.value.found == "killed by SIGSEGV during 'crash'"
    assert "  Fatal Python error: Segmentation fault\n" in caught.value.next_step
    assert f'File "{program}", line {line_of(program, "ctypes.string_at(0)")} in crash\n' in caught.value.next_step


def test_an_exit_is_reported_with_its_status_and_the_last_lines(start: Start, tmp_path: Path) -> None:
    with pytest.raises(WorkerError) as caught:
        start().call("leave", {"status": 7})
    assert caught.value.found == "exit status 7 during 'leave'"
    lines = "\n".join(f"  line {line}" for line in range(10, 30))
    assert caught.value.next_step == f"Its log, {tmp_path / 'tester.log'}, ends:\n{lines}"


def test_an_earlier_workers_log_lines_are_not_shown(start: Start, tmp_path: Path) -> None:
    (tmp_path / "tester.log").write_text("of an earlier worker\n")
    with pytest.raises(WorkerError) as caught:
        start().call("kill", {"signal": "SIGKILL"})
    assert caught.value.next_step.endswith("ends:\n  the last words")
    assert (tmp_path / "tester.log").read_text() == "of an earlier worker\nthe last words\n"


def test_a_hung_handler_with_a_beating_heart_is_bounded_by_the_timeout(
    start: Start, program: Path, is_running: Tell
) -> None:
    worker = start()
    with pytest.raises(WorkerError) as caught:
        worker.call("hang", {}, timeout=3)
    assert fields(caught.value)[:3] == (
        "worker tester",
        "no reply to 'hang'; its heart beats, and it is inside the handler",
        "a reply within 3 s",
    )
    assert f'File "{program}", line {line_of(program, "time.sleep(600)")} in hang\n' in caught.value.next_step
    assert not is_running(worker.pid)


def test_a_stopped_process_is_found_by_its_heartbeat(start: Start, is_running: Tell) -> None:
    worker = start(stale_after=2)
    with pytest.raises(WorkerError) as caught:
        worker.call("kill", {"signal": "SIGSTOP"})
    assert caught.value.found == "hung during 'kill': no heartbeat for 2 s"
    assert caught.value.accepted == "a heartbeat"
    assert not is_running(worker.pid)


def test_an_early_death_is_reported(start: Start, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('no torch here'); sys.exit(4)"]
    with pytest.raises(WorkerError) as caught:
        start(command=command)
    assert fields(caught.value) == (
        "worker tester",
        "exit status 4 before it was ready",
        "a worker that gets ready",
        f"Its log, {tmp_path / 'tester.log'}, ends:\n  no torch here",
    )


def test_a_worker_that_never_gets_ready_is_ended(start: Start) -> None:
    with pytest.raises(WorkerError) as caught:
        start(command=["sleep", "600"], ready_timeout=0.2)
    assert caught.value.found == "not ready after 0.2 s"


def test_a_program_that_is_not_there_is_a_machine_error(start: Start) -> None:
    with pytest.raises(MachineError) as caught:
        start(command=["/no/such/python"])
    assert fields(caught.value) == (
        "worker tester",
        "No such file or directory: /no/such/python",
        "a program and a log file that can be opened",
        "Check the command's first word and the log's folder.",
    )


def test_a_spool_that_vanishes_is_a_machine_error(start: Start, tmp_path: Path, is_running: Tell) -> None:
    worker = start()
    (tmp_path / "spool-1" / "requests").rename(tmp_path / "elsewhere")
    with pytest.raises(MachineError) as caught:
        worker.call("echo", {})
    assert caught.value.found == "No such file or directory"
    assert not is_running(worker.pid)


def test_descendants_end_with_a_stopped_worker(start: Start, is_running: Tell, ends: Tell) -> None:
    worker = start()
    child = worker.call("child", {})["pid"]
    assert is_running(child)
    assert worker.stop() == 0
    assert ends(child)


def test_descendants_end_with_a_crashed_worker(start: Start, ends: Tell) -> None:
    worker = start()
    child = worker.call("child", {})["pid"]
    with pytest.raises(WorkerError):
        worker.call("crash", {})
    assert ends(child)


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("victim", ["worker", "guardian"])
def test_descendants_end_however_the_worker_is_killed(
    start: Start, is_running: Tell, ends: Tell, victim: str, session: bool
) -> None:
    worker = start()
    pid = worker.call("pid", {})["pid"]
    below = worker.call("descendants", {"session": session})["pids"]
    assert [is_running(one) for one in (pid, *below)] == [True, True, True]
    os.kill(pid if victim == "worker" else worker.pid, signal.SIGKILL)
    assert ends(worker.pid)
    with pytest.raises(WorkerError) as caught:
        worker.call("echo", {})
    assert caught.value.found == "killed by SIGKILL during 'echo'"
    assert ends(pid)
    if victim == "worker" or not session:
        assert [ends(one) for one in below] == [True, True]
    else:  # only a guardian reaches into another session
        os.killpg(below[0], signal.SIGKILL)


def test_orphans_are_reaped_while_the_worker_runs(start: Start, ends: Tell) -> None:
    """A guardian is the father of all orphans below it, and leaves no zombie."""
    worker = start()
    below = worker.call("descendants", {"session": True})["pids"]
    os.kill(below[0], signal.SIGKILL)
    os.kill(below[1], signal.SIGKILL)
    assert ends(below[1])
    for _ in range(500):
        if not Path(f"/proc/{below[1]}").exists():
            break
        time.sleep(0.02)
    assert not Path(f"/proc/{below[1]}").exists()
    assert worker.call("echo", {"still": 1}) == {"still": 1}


def test_a_deaf_worker_is_killed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_GRACE", 0.2)
    worker = start()
    worker.call("deaf", {})
    worker._sent += 1  # as if a call was interrupted: it is not asked politely
    assert worker.stop() == -signal.SIGKILL
    assert worker.stop() == -signal.SIGKILL


def test_a_busy_worker_ends_on_sigterm(start: Start) -> None:
    worker = start()
    errors_raised: list[str] = []

    def hang() -> None:
        try:
            worker.call("hang", {})
        except WorkerError as error:
            errors_raised.append(error.found)

    thread = threading.Thread(target=hang)
    thread.start()
    while worker._sent == 0:
        time.sleep(0.001)
    assert worker.stop() == 128 + signal.SIGTERM
    thread.join()
    assert errors_raised == ["exit status 143 during 'hang'"]


def test_a_worker_told_to_end_by_somebody_else_is_reported(start: Start, ends: Tell) -> None:
    worker = start()
    os.kill(worker.call("pid", {})["pid"], signal.SIGTERM)
    assert ends(worker.pid)
    with pytest.raises(WorkerError) as caught:
        worker.call("echo", {})
    assert caught.value.found == "exit status 143 during 'echo'"


def test_an_exception_in_the_parent_ends_the_worker(start: Start, is_running: Tell) -> None:
    worker = start()
    with pytest.raises(ZeroDivisionError), worker:
        worker.call("echo", {"n": 1 // 0})
    assert not is_running(worker.pid)
