"""Progress of a run: lines that stay, and on a terminal one line that moves."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status


class ConsoleReporter:
    """Lines on standard error, so that ``--json`` keeps standard output to itself.

    Without a terminal the moving line becomes an ordinary one, at most every ten seconds: a log shows that the run is
    alive and stays short.
    """

    QUIET_SECONDS = 10.0

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = self._console.status("") if self._console.is_terminal else None
        self._began = time.monotonic()
        self._last = self._began

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def line(self, text: str) -> None:
        """A line that stays, stamped with the seconds since the start."""
        self._last = time.monotonic()
        self._console.print(f"{self._last - self._began:6.1f} s  {text}", markup=False)

    def live(self, text: str) -> None:
        """What is happening right now."""
        if self._status:
            self._status.update(text)
        elif time.monotonic() - self._last > self.QUIET_SECONDS:
            self.line(text)
