"""A worker does not outlive its parent.

Its guardian ends it with everything below it (:mod:`samebits.spool.guardian`).  A worker that was started by other
means, in a container say, notices by itself, in three ways since none is enough alone: the kernel kills it when the
parent dies (Linux, only a direct child), the parent's pid is gone (only on the same machine and in the same pid
namespace), the parent's heartbeat stands still.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

from samebits.spool.folder import Folder
from samebits.spool.heartbeat import Pulse

PARENT_SILENCE: Final = 60.0
"""Seconds of silence after which a parent that cannot be seen otherwise counts as dead."""

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


def whereabouts() -> str:
    """Names the set of processes that can see each other's pids: this boot of this machine, this pid namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return sys.platform


class Lifeline:
    """The worker's eye on its parent; make it before serving, then call :meth:`check` now and then.

    A folder without ``parent.json`` was made by hand: nobody to watch but the process that started us.
    """

    def __init__(self, folder: Folder) -> None:
        self._starter = os.getppid()
        self._pulse = Pulse(folder.parent)
        self._pulse.listen()
        state = self._pulse.state
        self._parent = state.get("pid") if state.get("whereabouts") == whereabouts() else None
        if self._parent == self._starter:
            die_with_parent()
        self.check()

    def check(self) -> None:
        """End this process at once, without any cleaning up, if its parent is gone."""
        if self._orphaned():
            # The main thread may be deep in a kernel: only this ends it.
            print("samebits: the parent is gone; this worker ends", file=sys.stderr, flush=True)  # noqa: T201 - the log
            os.killpg(0, signal.SIGKILL) if os.getpgrp() == os.getpid() else os._exit(1)

    def _orphaned(self) -> bool:
        if os.getppid() != self._starter:
            return True
        if self._parent is not None:
            return not _is_alive(self._parent)
        return bool(self._pulse.state) and self._pulse.listen() > PARENT_SILENCE


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when the thread that started this process ends (prctl(2), PR_SET_PDEATHSIG)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _is_alive(pid: int) -> bool:
    """Whether ``pid`` runs; a zombie that nobody reaps does not, though a signal finds it."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's process, or no /proc
        return True
    return state not in ("Z", "X")
