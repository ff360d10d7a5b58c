"""A time limit for what must not hang, a pipe that nobody writes to as much as a loop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Hang(BaseException):
    """The limit has passed.  No Exception: nothing on the way up may take it for one of its own."""


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """Raises :class:`Hang` in the main thread if the block takes longer than ``seconds``."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise Hang(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
