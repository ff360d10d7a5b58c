"""No orphans: what happens to workers when the parent is told to end."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from samebits.spool.group import Group, live


class Terminated(SystemExit):
    """SIGTERM or SIGHUP, as an exception that unwinds the stack; the exit status is 128 + the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal = signal.Signals(number)


@contextmanager
def reaping() -> Iterator[None]:
    """Around everything a parent does with workers: however it is left, the workers started inside are gone.

    SIGTERM and SIGHUP raise :class:`Terminated` and SIGINT ``KeyboardInterrupt`` in the main thread, so that workers
    are asked politely and files are finished or removed; a second signal kills the workers without asking.  A signal
    that was ignored (nohup, a shell's background job) stays so.  The old handlers come back at the end.

    Workers die with a parent that is killed outright, too: see :mod:`samebits.spool.lifeline`.
    """
    before = live()
    signals = 0

    def end(number: int, _frame: FrameType | None) -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            _kill(live() - before)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Terminated(number)

    old = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                old[number] = signal.signal(number, end)
    try:
        yield
    finally:
        _kill(live() - before)
        for number, handler in old.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _kill(groups: set[Group]) -> None:
    for group in groups:
        group.kill()


@atexit.register
def _at_exit(owner: int = os.getpid()) -> None:
    if os.getpid() == owner:  # a fork has a copy of the list, and no business with it
        _kill(live())
