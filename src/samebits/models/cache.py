"""Model folders kept under the user's cache: built once, whole or not at all, and never believed unread.

A cached folder carries ``manifest.json``, the sha256 of each of its files.  Every use checks them: a truncated or
edited file means another model, so the folder is built again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock
from platformdirs import user_cache_dir

from samebits.errors import MachineError, RowError
from samebits.hashing import sha256_file

MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedFolder:
    """A folder whose files were just read and found to be those of its manifest."""

    path: Path
    files: Mapping[str, str]
    """File name to sha256, the manifest itself left out."""
    was_cached: bool


def default_root() -> Path:
    """Where model folders are kept on this machine."""
    return Path(user_cache_dir("samebits", appauthor=False)) / "models"


def cached_folder(
    name: str,
    build: Callable[[Path], None],
    *,
    root: Path,
    pinned: Mapping[str, str] | None = None,
) -> CachedFolder:
    """The folder ``root/name``: as cached if intact, else made by ``build``, which fills the empty folder it is given.

    ``pinned`` names files whose sha256 is known beforehand.  Two processes may ask at once: one builds, one waits.

    Raises:
        MachineError: the cache cannot be written.
        RowError: ``build`` made other bits than those pinned.
    """
    pins = pinned or {}
    folder, scratch = root / name, root / f".{name}.building"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{name}.lock"):
            files = _intact(folder, pins)
            if files is not None:
                return CachedFolder(path=folder, files=files, was_cached=True)
            # What lies there is damaged, and scratch was left by a process that died: we hold the lock.
            _remove(folder)
            _remove(scratch)
            scratch.mkdir()
            try:
                build(scratch)
                files = {path.name: sha256_file(path) for path in sorted(scratch.iterdir())}
                _check_pins(files, pins)
                (scratch / MANIFEST).write_text(json.dumps({"files": files}, indent=2) + "\n")
                scratch.rename(folder)
            finally:
                _remove(scratch)
            return CachedFolder(path=folder, files=files, was_cached=False)
    except OSError as error:
        raise MachineError(
            str(error.filename or root),
            found=error.strerror or str(error),
            accepted="a cache folder that can be written",
            next_step="Free space or mend permissions, or set XDG_CACHE_HOME to another folder.",
        ) from error


def _intact(folder: Path, pins: Mapping[str, str]) -> dict[str, str] | None:
    """The files of ``folder`` if each is what the manifest says and none is missing or added; else ``None``."""
    try:
        files = json.loads((folder / MANIFEST).read_bytes())["files"]
        found = {path.name: sha256_file(path) for path in sorted(folder.iterdir()) if path.name != MANIFEST}
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if found != files or any(found.get(name) != digest for name, digest in pins.items()):
        return None
    return found


def _check_pins(files: Mapping[str, str], pins: Mapping[str, str]) -> None:
    for name, digest in pins.items():
        if files.get(name) != digest:
            raise RowError(
                name,
                found=f"sha256 {files[name]}" if name in files else "no such file",
                accepted=f"sha256 {digest}",
                next_step="Install the versions pinned in lock/cpu.txt: another library made other bits.",
            )


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
