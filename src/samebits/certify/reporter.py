"""Where a run says what it is doing; the command line implements it."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    """Two voices: one that stays and one that moves."""

    def line(self, text: str) -> None:
        """A line that stays."""

    def live(self, text: str) -> None:
        """What is happening right now; replaced by the next call."""
