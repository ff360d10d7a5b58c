"""Both sides' heartbeats: a thread that rewrites a small file, and how the other side listens to it.

Nobody compares clocks: a beat is a number, and the listener counts the seconds of its *own* watching during which the
number stood still.  So a suspended laptop, a paused container or two hosts with different clocks raise no alarm.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self

from samebits.errors import SamebitsError
from samebits.spool.folder import LIMIT, read, write
from samebits.spool.message import VERSION, load

INTERVAL: Final = 1.0
"""Seconds between two beats."""

_LONGEST_LOOK: Final = 1.0


class Heart:
    """Rewrites ``path`` every :data:`INTERVAL` seconds from a daemon thread, from entering to leaving the context.

    ``state`` gives further fields; ``check`` runs after each beat, for what must be looked at now and then.
    """

    def __init__(
        self, path: Path, state: Callable[[], Mapping[str, Any]], check: Callable[[], None] = lambda: None
    ) -> None:
        self._path = path
        self._state = state
        self._check = check
        self._beat = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"samebits {path.name}", daemon=True)

    def __enter__(self) -> Self:
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            # A full disk: the listener notices the silence and says so. The check must go on.
            with contextlib.suppress(SamebitsError):
                self._write()
            self._check()

    def _write(self) -> None:
        self._beat += 1
        beat = {"protocol": VERSION, "pid": os.getpid(), "beat": self._beat, **self._state()}
        write(self._path, json.dumps(beat).encode("ascii"))


class Pulse:
    """Listens to a heartbeat file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._beat: object = None
        self._looked = time.monotonic()
        self.state: Mapping[str, Any] = {}
        """The newest heartbeat's fields; empty before the first one."""
        self.silence = 0.0
        """Seconds of watching since the last new beat."""

    def listen(self) -> float:
        """Look at the file; returns ``silence``."""
        now = time.monotonic()
        data = read(self._path, LIMIT)
        state = load(data, str(self._path)) if data else {}
        if state.get("beat") != self._beat:
            self.state, self._beat, self.silence = state, state.get("beat"), 0.0
        else:
            # A listener that was itself stopped for an hour has not watched for an hour.
            self.silence += min(now - self._looked, _LONGEST_LOOK)
        self._looked = now
        return self.silence
