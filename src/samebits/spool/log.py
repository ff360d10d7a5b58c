"""A worker's log: what its last words were."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

LINES: Final = 20
"""Last lines that go into an error."""

_TAIL: Final = 16 * 1024


class Log:
    """The file ``path``, in which the worker's own lines begin at byte ``began``."""

    def __init__(self, path: Path, began: int) -> None:
        self.path = path
        self._began = began

    def last_lines(self) -> str:
        """The last lines of this worker, indented; empty if it wrote none."""
        try:
            with self.path.open("rb") as stream:
                end = stream.seek(0, os.SEEK_END)
                stream.seek(max(self._began, end - _TAIL))
                lines = stream.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return "\n".join(f"  {line}" for line in lines[-LINES:])
