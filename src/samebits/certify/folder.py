"""The run folder: what has been done so far, and one owner at a time.

``runs/<id>/`` holds ``run.json`` (the manifest), ``certificate.evidence/`` (recipe, row and Parquet files),
``spool/`` and ``logs/``.  A phase first writes its evidence parts, then enters its name into the manifest by an
atomic rename: what the manifest does not name was never done, so a run killed at any instant resumes cleanly.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import filelock

from samebits.certificate import write_atomic
from samebits.errors import InputError

MANIFEST: Final = "run.json"
STEM: Final = "certificate"


@dataclass(kw_only=True, slots=True)
class Manifest:
    """What ``run.json`` says."""

    run_id: str
    recipe: str
    recipe_sha256: str
    row: str
    row_sha256: str
    kit_sha256: str
    started_on: str
    resumed: bool = False
    phases: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Finished phases in order, each with what it found that later phases need."""


class RunFolder:
    """One run's folder, opened by one process at a time."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @property
    def evidence(self) -> Path:
        """Subjects of the certificate."""
        return self.path / f"{STEM}.evidence"

    @property
    def parts(self) -> Path:
        """Evidence of finished phases, before it is assembled."""
        return self.path / "parts"

    @property
    def exchange(self) -> Path:
        """The file through which weights travel."""
        return self.path / "weights.safetensors"

    @property
    def statement(self) -> Path:
        """The unsigned statement."""
        return self.path / f"{STEM}.statement.json"

    @property
    def certificate(self) -> Path:
        """The signed bundle."""
        return self.path / f"{STEM}.sigstore.json"

    @property
    def logs(self) -> Path:
        """Logs of workers."""
        return self.path / "logs"

    def is_done(self, phase: str) -> bool:
        """Whether the manifest names ``phase``."""
        return phase in self.manifest.phases

    def finish(self, phase: str, **found: Any) -> None:
        """Enter ``phase`` into the manifest; from here on it is believed."""
        self.manifest.phases[phase] = found
        self.save()

    def save(self) -> None:
        """Write the manifest atomically."""
        write_atomic(self.path / MANIFEST, json.dumps(asdict(self.manifest), indent=1).encode())

    def fresh_spool(self) -> Path:
        """An empty spool; an earlier process' messages are not ours."""
        spool = self.path / "spool"
        shutil.rmtree(spool, ignore_errors=True)
        spool.mkdir(parents=True)
        return spool


@contextlib.contextmanager
def create(path: Path, manifest: Manifest) -> Iterator[RunFolder]:
    """Make and own a new run folder.

    Raises:
        InputError: the folder holds something already, or cannot be made.
    """
    if path.exists() and any(path.iterdir()):
        raise InputError(
            f"run folder {path}",
            found="a folder that is not empty",
            accepted="a new folder",
            next_step=f"Choose another --run-id, or continue it with --resume {path}.",
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"run folder {path}",
            found=error.strerror or "an error",
            accepted="a folder that can be made",
            next_step="Choose another place with --runs.",
        ) from None
    with _owned(path):
        folder = RunFolder(path, manifest)
        for sub in (folder.evidence, folder.parts, folder.logs):
            sub.mkdir()
        folder.save()
        yield folder


@contextlib.contextmanager
def reopen(path: Path) -> Iterator[RunFolder]:
    """Own an existing run folder, to resume it.

    Raises:
        InputError: no manifest, a damaged one, or another process is running it.
    """
    try:
        data = json.loads((path / MANIFEST).read_text())
        manifest = Manifest(**data)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"run folder {path}",
            found=f"no readable {MANIFEST} ({error})",
            accepted="the folder of an unfinished run",
            next_step="Name a folder under runs/, or start a new run.",
        ) from None
    with _owned(path):
        yield RunFolder(path, manifest)


@contextlib.contextmanager
def _owned(path: Path) -> Iterator[None]:
    lock = filelock.FileLock(path / ".lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise InputError(
            f"run folder {path}",
            found="another process is running here",
            accepted="one run a folder",
            next_step="Wait for it, or choose another --run-id.",
        ) from None
    try:
        yield
    finally:
        lock.release()
