"""How a handler says that it is getting on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from samebits.spool.folder import Folder, write
from samebits.spool.message import Note, encode

INTERVAL: Final = 0.1
"""Least seconds between two notes on disk; a note in between waits, and the newest one wins."""


class Progress:
    """What a handler is given to call, as often as it likes: ``progress(step=3, of=10)``.

    The parent's ``on_progress`` receives the fields of the newest note; notes in between may be skipped, the last one
    of a call never is.  ``count`` also goes into the heartbeat, which tells a slow handler from a hung one.
    """

    def __init__(self, folder: Folder, limit: int) -> None:
        self.count = 0
        self.call = 0
        """The id of the call in progress, 0 between calls."""
        self._folder = folder
        self._limit = limit
        self._pending: Mapping[str, Any] | None = None
        self._written = 0.0

    def __call__(self, **fields: Any) -> None:
        """Note ``fields``, plain JSON values."""
        self.count += 1
        self._pending = fields
        if time.monotonic() - self._written >= INTERVAL:
            self.flush()

    def begin(self, call: int) -> None:
        self.count += 1
        self.call = call
        self._pending = None
        self._written = 0.0

    def end(self) -> None:
        self.flush()
        self.count += 1
        self.call = 0

    def flush(self) -> None:
        fields, self._pending = self._pending, None
        if fields is not None:
            note = Note(id=self.call, count=self.count, fields=fields)
            write(self._folder.progress(self.call), encode(note, limit=self._limit))
            self._written = time.monotonic()
