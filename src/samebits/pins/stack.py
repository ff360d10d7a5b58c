"""The environment of a row's workers: made once for each set of requirements, kept, and never mixed with the kit's.

A stack lives in the user's cache folder under the row's id and the digest of its requirements, so that a changed lock
file makes a new one.  It counts only once it is complete: a folder without the mark is an interrupted installation.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import filelock
import platformdirs

from samebits import hashing
from samebits.errors import MachineError, RowError
from samebits.pins import files
from samebits.pins.row import Requirements, Row, Stack

_COMPLETE: Final = "samebits-complete"
_LAST_LINES: Final = 5

Say = Callable[[str], None]


def folder(row: Row) -> Path:
    """Where the stack of ``row`` is kept; it need not be there yet.

    Raises:
        RowError: the row has no stack of its own.
    """
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    digest = _stack(row).requirements.sha256[:12]
    return platformdirs.user_cache_path("samebits") / "stacks" / f"{row.id}-{tag}-{digest}"


def link_folder() -> Path:
    """Where a link to the kit lies, so that a stack can import it and nothing else of the kit's environment."""
    digest = hashing.sha256_bytes(str(Path(__file__).parent.parent).encode())[:12]
    return platformdirs.user_cache_path("samebits") / "kits" / digest


def find(row: Row) -> Path | None:
    """The interpreter of the complete stack of ``row``, or None."""
    made = folder(row)
    return made / "bin" / "python" if (made / _COMPLETE).is_file() else None


def install(row: Row, say: Say) -> Path:
    """The interpreter of the stack of ``row``, which is installed if it is not there; minutes, and a few GB.

    Raises:
        RowError: the hashed requirements are missing or are not those that the row names.
        MachineError: pip failed; its last lines are in the message, and nothing half-made is believed later.
    """
    found = find(row)
    if found is not None:
        return found
    stack, made = _stack(row), folder(row)
    requirements = _requirements(stack.requirements)
    made.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(made.with_name(made.name + ".lock")):
        if not (made / _COMPLETE).is_file():
            shutil.rmtree(made, ignore_errors=True)
            say(f"installing the stack of row {row.id}, once: some minutes and GB")
            _run([sys.executable, "-m", "venv", str(made)])
            pip = [str(made / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, f"torch=={stack.torch}"])
            _run([*pip, "--no-deps", "--require-hashes", "--requirement", str(requirements)])
            (made / _COMPLETE).touch()
    return made / "bin" / "python"


def _stack(row: Row) -> Stack:
    if row.stack is None:
        raise RowError(
            f"row {row.id}: stack",
            found="none",
            accepted="a row whose workers have an environment of their own",
            next_step="This row runs in the kit's own environment; nothing is to be installed.",
        )
    return row.stack


def _requirements(wanted: Requirements) -> Path:
    path, there = files.locate(wanted)
    if path is None:
        raise RowError(
            wanted.file,
            found=f"sha256 {there}" if there else "no such file",
            accepted=f"sha256 {wanted.sha256}",
            next_step="Restore it from the repository; `nox -s lock -- --check` says what has drifted.",
        )
    return path


def _run(command: list[str]) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        words = " ".join((finished.stderr or finished.stdout).strip().splitlines()[-_LAST_LINES:])
        raise MachineError(
            " ".join(command[1:4]),
            found=words or f"exit status {finished.returncode}",
            accepted="an installation that succeeds",
            next_step="Mend what pip says (a network, disk space), then run again; nothing half-made is kept.",
        )
