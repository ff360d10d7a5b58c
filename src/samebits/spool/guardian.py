"""Between a parent and a worker: a small process that leaves nothing behind.

``python -I -S guardian.py LIFELINE PROGRAM ARGUMENTS…`` runs the program as its child and ends as it ends.  Engines
start processes of their own, and a worker that is killed outright cannot end them; nor can a parent that is.  So the
guardian

* is a *subreaper* (prctl(2), Linux 3.4): whoever is orphaned below it becomes its child, in whatever session or group;
* reads a pipe, ``LIFELINE``, whose other end only the parent holds: the kernel closes it however the parent dies;
* ends every descendant as soon as the worker has ended or the parent is gone.

If the guardian itself is killed, the kernel kills the worker (PR_SET_PDEATHSIG) and the parent the whole group.
Standard library only, and little of it (no pathlib): this runs before every worker.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""Sent to the whole group and meant for the worker; the guardian ends when there is nothing left to guard."""
LOOK = 1.0
"""Seconds between two looks for orphans that have ended, and at a worker where there are no pidfds."""


def guard(lifeline: int, program: Callable[[], NoReturn]) -> NoReturn:
    """Run ``program`` in a child, and end as it did, with all its descendants; ``lifeline`` is the pipe's read end."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in IGNORED}
    guardian = os.getpid()
    worker = os.fork()
    if worker == 0:
        os.close(lifeline)
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian:  # it died before the line above
            os._exit(1)
        program()
    status = _wait(lifeline, worker)
    _end_all()
    _end_as(-signal.SIGKILL if status is None else status)


def prctl(option: int, value: int) -> None:
    """Nothing on systems without it: there the group is all that can be ended."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - a third of this process' start-up time, and only needed here

        ctypes.CDLL(None, use_errno=True).prctl(option, int(value), 0, 0, 0)


def _wait(lifeline: int, worker: int) -> int | None:
    """The worker's exit code, negative for a signal; None if the parent went first."""
    watched = [lifeline]
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):  # a kernel before 5.3, or a sandbox without it
            watched.append(os.pidfd_open(worker))
    patience = LOOK if len(watched) > 1 else LOOK / 20
    while True:
        ready, _, _ = select.select(watched, [], [], patience)
        for pid, status in _ended():
            if pid == worker:
                return os.waitstatus_to_exitcode(status)
        if lifeline in ready and not os.read(lifeline, 1):
            return None


def _ended() -> Iterator[tuple[int, int]]:
    """Children that have ended, reaped: the worker, and orphans of its descendants."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found


def _end_all() -> None:
    """Kill every child until there is none: the children of a killed one are the next round's."""
    while True:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    """Of this process, by /proc; without it, the whole group, this process included."""
    own, found = os.getpid(), []
    try:
        entries = os.listdir("/proc")  # noqa: PTH208 - no pathlib here
    except OSError:
        os.killpg(0, signal.SIGKILL)
        return []
    for entry in entries:
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", "rb") as stream:  # noqa: PTH123 - as above
                if int(stream.read().rpartition(b")")[2].split()[1]) == own:
                    found.append(int(entry))
    return found


def _end_as(status: int) -> NoReturn:
    if status < 0:
        import resource  # noqa: PLC0415 - only here

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core file, the worker's, is enough
        number = -status
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(status)


def main(arguments: list[str]) -> NoReturn:
    """``LIFELINE PROGRAM ARGUMENTS…``."""
    lifeline, command = int(arguments[0]), arguments[1:]

    def program() -> NoReturn:
        try:
            os.execvp(command[0], command)  # noqa: S606 - what the parent asked for
        except OSError as error:
            sys.stderr.write(f"{command[0]}: {error.strerror}\n")
            os._exit(127)

    guard(lifeline, program)


if __name__ == "__main__":
    main(sys.argv[1:])
