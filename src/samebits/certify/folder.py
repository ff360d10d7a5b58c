"""The run folder: what has been done so far, and one owner at a time.

``runs/<id>/`` holds ``run.json`` (the manifest), ``certificate.evidence/`` (recipe, row and Parquet files),
``spool/`` and ``logs/``.  A phase first writes its evidence parts, then enters its name into the manifest by an
atomic rename: what the manifest does not name was never done, so a run killed at any instant resumes cleanly.  It
notes the digest of each part too: a part that was changed or lost while the run lay still is not believed.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import filelock

from samebits.certificate import write_atomic
from samebits.errors import InputError
from samebits.hashing import sha256_file

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
    parts: dict[str, str] = field(default_factory=dict)
    """sha256 of each finished phase's evidence parts, by file name."""


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
        """Enter ``phase`` and the digests of its parts into the manifest; from here on it is believed."""
        written = sorted(self.parts.glob(f"{phase}.*.parquet"))
        self.manifest.parts |= {path.name: sha256_file(path) for path in written}
        self.manifest.phases[phase] = found
        self.save()

    def save(self) -> None:
        """Write the manifest atomically."""
        write_atomic(self.path / MANIFEST, json.dumps(asdict(self.manifest), indent=1).encode())

    def check_parts(self) -> None:
        """Nothing if the parts of all finished phases are as they were written.

        Raises:
            InputError: one is missing or has other bytes.
        """
        for name, digest in self.manifest.parts.items():
            path = self.parts / name
            found = f"sha256 {sha256_file(path)}" if path.is_file() else "no such file"
            if found != f"sha256 {digest}":
                raise InputError(
                    str(path),
                    found=found,
                    accepted=f"sha256 {digest}, as its phase left it",
                    next_step="Restore it, or start a new run: what was measured cannot be made up.",
                )

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
    try:
        path.mkdir(parents=True, exist_ok=True)
        occupied = any(path.iterdir())
    except OSError as error:
        raise InputError(
            f"run folder {path}",
            found=error.strerror or "an error",
            accepted="a folder that can be made",
            next_step="Choose another place with --runs.",
        ) from None
    if occupied:
        raise InputError(
            f"run folder {path}",
            found="a folder that is not empty",
            accepted="a new folder",
            next_step=f"Choose another --run-id, or continue it with --resume {path}.",
        )
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
    manifest = read_manifest(path)
    with _owned(path):
        _sweep(path)
        yield RunFolder(path, manifest)


def read_manifest(path: Path) -> Manifest:
    """What the run in folder ``path`` has done so far.

    Raises:
        InputError: no manifest, or a damaged one.
    """
    try:
        return _parse((path / MANIFEST).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"run folder {path}",
            found=f"no readable {MANIFEST} ({getattr(error, 'strerror', None) or error})",
            accepted="the folder of an unfinished run",
            next_step="Name a folder under runs/, or start a new run.",
        ) from None


def _sweep(path: Path) -> None:
    """Remove what a killed process had not renamed into place yet; nobody ever believes such a file."""
    for pattern in (f".{MANIFEST}.*", f".{STEM}.*", ".*.partial", f"{STEM}.evidence/.*.partial"):
        for leftover in path.glob(pattern):
            leftover.unlink(missing_ok=True)


_NEEDED: Final[Mapping[str, Mapping[str, type]]] = {
    "surveyed": {"computing": list, "limitations": list, "environment": dict, "images": list},
    "construct": {"prepared": dict},
    "round": {"stepped": bool, "weights_sha256": str},
    "measured": {"on": str},
    "judged": {"verdict": str},
}
"""What later phases read of a finished one, by the phase's name; rounds are all alike."""


def _parse(text: str) -> Manifest:
    """The manifest in ``text``.

    Raises:
        ValueError: not one that :meth:`RunFolder.save` wrote.
    """
    data = json.loads(text)
    names = {one.name: one for one in fields(Manifest)}
    if not isinstance(data, dict) or data.keys() - names:
        raise ValueError(f"not an object with {', '.join(names)}")
    kinds = {"resumed": bool, "phases": dict, "parts": dict}
    for name in names:
        kind = kinds.get(name, str)
        if type(data.get(name)) is not kind:
            raise ValueError(f"{name} is not a {kind.__name__}")
    for phase, found in data["phases"].items():
        # A baseline is only timed: nothing of it is repeated.
        is_round = "-round-" in phase and not phase.startswith("baseline")
        needed = _NEEDED.get("round" if is_round else phase, {})
        if not isinstance(found, dict) or not all(isinstance(found.get(key), kind) for key, kind in needed.items()):
            raise ValueError(f"phase {phase} is not a phase")
    if not all(isinstance(digest, str) and Path(name).name == name for name, digest in data["parts"].items()):
        raise ValueError("parts are not digests by file name")
    if data["phases"].keys() & {"measured", "judged"} and "construct" not in data["phases"]:
        raise ValueError("a run that was measured and never constructed")
    return Manifest(**data)


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
