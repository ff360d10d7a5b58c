"""The shared folder: its layout, and how a file gets in whole and is waited for."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Final

from samebits.errors import InputError, MachineError

LIMIT: Final = 256 * 2**20
"""Default largest message in bytes."""

SHORTEST_PAUSE: Final = 0.0005
LONGEST_PAUSE: Final = 0.02
PATIENCE: Final = 0.02


class Folder:
    """Paths of one spool."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parent = path / "parent.json"
        self.heartbeat = path / "heartbeat.json"
        self._parts = tuple(path / name for name in ("requests", "replies", "progress"))

    def request(self, number: int) -> Path:
        return self._parts[0] / f"{number:06}.json"

    def reply(self, number: int) -> Path:
        return self._parts[1] / f"{number:06}.json"

    def progress(self, number: int) -> Path:
        return self._parts[2] / f"{number:06}.json"

    def claim(self) -> None:
        """Make the folder and take it for one parent and one worker.

        Raises:
            InputError: it holds the messages of an earlier run, or cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.path, *self._parts):
                # Whoever can write here can answer for the worker.
                folder.mkdir(exist_ok=True, mode=0o700)
            used = [self.heartbeat] if self.heartbeat.exists() else []
            used += [file for part in self._parts for file in sorted(part.iterdir())]
            if used:
                raise _stale(self.path, used[0])
            self._claim_alone()
        except OSError as error:
            raise InputError(
                f"spool {self.path}",
                found=error.strerror,
                accepted="a folder that can be made and written",
                next_step="Choose a folder on a writable disk.",
            ) from None

    def _claim_alone(self) -> None:
        """Of two parents that get here at once, one succeeds."""
        try:
            self.parent.touch(exist_ok=False)
        except FileExistsError:
            raise _stale(self.path, self.parent) from None


def _stale(spool: Path, file: Path) -> InputError:
    return InputError(
        f"spool {spool}",
        found=f"{file.relative_to(spool)} of an earlier run",
        accepted="a new or an empty folder",
        next_step="Give each worker a spool folder of its own, or remove this one.",
    )


def write(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path`` so that a reader sees all of it or nothing.

    No fsync: other processes see a renamed file whole without it, and after a power failure nobody reads the spool
    again.  Each path has one writer, so the scratch name needs no randomness.

    Raises:
        MachineError: the disk is full or gone.
    """
    scratch = path.with_name(f".{path.name}.tmp")
    try:
        scratch.write_bytes(data)
        scratch.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise MachineError(
            f"spool file {path}",
            found=error.strerror,
            accepted="a folder that can be written",
            next_step="Free space on that disk, or put the run on another one.",
        ) from None
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def read(path: Path, limit: int) -> bytes | None:
    """The file's bytes, or None while it is not there.

    Raises:
        InputError: it is larger than ``limit`` bytes.
        MachineError: it is there and cannot be read.
    """
    try:
        size = path.stat().st_size
        if size > limit:
            raise too_large(f"spool file {path}", size, limit)
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MachineError(
            f"spool file {path}",
            found=error.strerror,
            accepted="a file that can be read",
            next_step="Run the parent and the worker as users who can read each other's files.",
        ) from None


def too_large(field: str, size: int, limit: int) -> InputError:
    return InputError(
        field,
        found=f"{size} bytes",
        accepted=f"at most {limit} bytes in one message",
        next_step="Send fewer sequences in one call, or raise the limit on both sides.",
    )


class Pause:
    """Sleeps while something is waited for: 0.5 ms at first, then about 2 % of the time waited, 20 ms at most.

    So a quick call is answered quickly, and a long wait costs next to no CPU time on a machine that computes.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()

    def sleep(self) -> None:
        waited = time.monotonic() - self._began
        time.sleep(min(max(waited * PATIENCE, SHORTEST_PAUSE), LONGEST_PAUSE))
