"""A worker's process group: starting it, telling how it ended, ending it with all its descendants."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Final

from samebits.spool import guardian

GUARDIAN_GRACE: Final = 5.0
"""Seconds in which a guardian whose lifeline was cut ends everything; it takes milliseconds."""

_LIVE: Final[set[Group]] = set()
"""Groups whose leader has not been reaped yet; what :mod:`samebits.spool.reaping` clears."""


class Group:
    """A guardian in a session of its own, and the program below it; its pid is the group's number as well."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        """Start it; standard output and error are appended to ``log``, standard input is empty.

        Raises:
            OSError: no such program, no such log folder, too many processes.
        """
        if shutil.which(command[0], path=environment.get("PATH")) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
        with log.open("ab") as stream:
            theirs, ours = os.pipe()
            # A file object: closed once, whichever of two threads comes first, and by the collector at the latest.
            self._lifeline = os.fdopen(ours, "wb", 0)
            try:
                self._process = start_guarded(command, theirs, stream, environment)
            except BaseException:
                self._lifeline.close()
                raise
            finally:
                os.close(theirs)
        _LIVE.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> int | None:
        """None while the leader runs, else its exit status, negative for a signal; then the whole group is gone."""
        if self._process.returncode is None and self._has_exited():
            # Until the leader is reaped nobody else can get this group number.
            self.send(signal.SIGKILL)
            self._process.wait()
            self._forget()
        return self._process.returncode

    def send(self, number: signal.Signals) -> None:
        """Send a signal to every process of the group; nothing happens once the leader was reaped."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM if only zombies are left
                os.killpg(self.pid, number)

    def kill(self) -> None:
        """End the program and all its descendants now, and reap the leader.

        The guardian first: SIGKILL to the group would end it too, and reach no descendant in a session of its own.
        """
        self._forget()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GUARDIAN_GRACE)
        self.send(signal.SIGKILL)
        self._process.wait()

    def _forget(self) -> None:
        _LIVE.discard(self)
        self._lifeline.close()

    def _has_exited(self) -> bool:
        if sys.platform == "darwin":  # no waitid there before Python 3.13
            return self._process.poll() is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True


def start_guarded(
    command: Sequence[str], lifeline: int, stream: IO[bytes], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """``command`` below a guardian that reads ``lifeline``, as the leader of a new session."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", guardian.__file__, str(lifeline), *command],
        stdin=subprocess.DEVNULL,
        stdout=stream,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        start_new_session=True,
        pass_fds=(lifeline,),
    )


def live() -> set[Group]:
    """The groups that run now."""
    return set(_LIVE)


def status_text(status: int) -> str:
    """``exit status 3`` or ``killed by SIGSEGV``."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


class _Launcher:
    """Starts every group from one thread that lives as long as this process.

    PR_SET_PDEATHSIG fires when the *thread* that forked ends, not the process (prctl(2)): workers started from a
    short-lived thread would die with it.
    """

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[tuple[Future[Group], Sequence[str], Path, Mapping[str, str]]]
        self._orders = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._owner = 0

    def launch(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Group:
        with self._lock:
            if self._owner != os.getpid():  # first use, or a fork, which has no threads
                self._orders = queue.SimpleQueue()
                threading.Thread(target=self._run, args=(self._orders,), name="samebits launcher", daemon=True).start()
                self._owner = os.getpid()
        future: Future[Group] = Future()
        self._orders.put((future, command, log, environment))
        try:
            return future.result()
        except (KeyboardInterrupt, SystemExit):
            future.add_done_callback(_abandon)
            raise

    @staticmethod
    def _run(orders: queue.SimpleQueue[tuple[Future[Group], Sequence[str], Path, Mapping[str, str]]]) -> None:
        while True:
            future, command, log, environment = orders.get()
            try:
                future.set_result(Group(command, log, environment))
            except OSError as error:
                future.set_exception(error)


def _abandon(future: Future[Group]) -> None:
    if future.exception() is None:
        future.result().kill()


_LAUNCHER: Final = _Launcher()


def launch(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> Group:
    """Start a group that outlives the calling thread, but not this process.

    Raises:
        OSError: as :class:`Group`.
    """
    return _LAUNCHER.launch(command, log, environment)
