"""What is really installed: a distribution's files against the digests in its RECORD.

An index may serve a torch wheel by one name with different contents (CPU and CUDA builds share a version), and an
installed tree no longer knows the wheel it came from.  Its RECORD does: every file with its sha256 (PEP 376, and the
PyPA specification "Recording installed projects").
"""

from __future__ import annotations

import base64
import csv
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path, PurePosixPath

from samebits.errors import RowError
from samebits.hashing import sha256_bytes, sha256_file

_MADE_BY_INSTALLER = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
"""Files in ``*.dist-info`` that differ from one installation of a wheel to the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One file of RECORD: its path under site-packages and the sha256 written there, lower-case hex."""

    path: str
    sha256: str


def entries(record: str) -> list[Entry]:
    """The files of a RECORD that a wheel of one content always installs, sorted by path.

    Leaves out what the installer made (compiled files carry no digest) and scripts, which lie outside site-packages and
    start with the path of this environment's interpreter.

    Raises:
        ValueError: a digest that is not sha256, or a path that occurs twice.
    """
    found: dict[str, str] = {}
    for line in csv.reader(record.splitlines()):
        if len(line) != 3 or not line[1]:  # noqa: PLR2004 -- path, digest, size
            continue
        path, (algorithm, _, encoded) = line[0], line[1].partition("=")
        parts = PurePosixPath(path).parts
        if ".." in parts or PurePosixPath(path).is_absolute():
            continue
        if parts[0].endswith(".dist-info") and parts[-1] in _MADE_BY_INSTALLER and len(parts) == 2:  # noqa: PLR2004
            continue
        if algorithm != "sha256":
            raise ValueError(f"{path}: RECORD has a digest by {algorithm}, not sha256")
        if path in found:
            raise ValueError(f"{path}: twice in RECORD")
        found[path] = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).hex()
    return [Entry(path=path, sha256=found[path]) for path in sorted(found)]


def content_digest(files: Iterable[Entry]) -> str:
    """sha256 of the lines ``<sha256>  <path>``, as ``sha256sum`` would print them, in the order given."""
    return sha256_bytes("".join(f"{entry.sha256}  {entry.path}\n" for entry in files).encode())


def wheel_content(wheel: Path) -> str:
    """The content digest that ``wheel`` will have when installed, from its own RECORD."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD") and name.count("/") == 1)
        return content_digest(entries(archive.read(name).decode()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """A distribution as found: version, content digest by its RECORD, and the files that are not what RECORD says."""

    name: str
    version: str
    python_tag: str
    platform: str
    content_sha256: str
    verified: int
    """Files hashed again."""
    differing: list[str]
    """Paths whose bytes differ from RECORD."""
    missing: list[str] = field(default_factory=list)
    """Paths in RECORD that are gone: a stripped installation."""


def is_shared_library(path: str) -> bool:
    """Whether ``path`` names code that a process loads: ``.so``, ``.so.1``, also under a mangled name."""
    name = PurePosixPath(path).name
    return name.endswith(".so") or ".so." in name


def everything(_path: str) -> bool:
    """Selects every file."""
    return True


def verify_distribution(name: str, *, select: Callable[[str], bool] = is_shared_library) -> Installed:
    """Hashes the installed files of ``name`` that ``select`` picks (all shared libraries) and compares with RECORD.

    Raises:
        RowError: not installed, or installed without a RECORD.
    """
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise RowError(
            name, found="not installed", accepted=f"an installed {name}", next_step="Install the row's requirements."
        ) from None
    record = distribution.read_text("RECORD")
    if record is None:
        raise RowError(
            name,
            found="an installation without RECORD",
            accepted="one made from a wheel",
            next_step=f"Install {name} again with pip.",
        )
    files = entries(record)
    chosen = [entry for entry in files if select(entry.path)]
    found = {entry.path: _hash(Path(str(distribution.locate_file(entry.path)))) for entry in chosen}
    python_tag, platform = _tag(distribution.read_text("WHEEL") or "")
    return Installed(
        name=name,
        version=distribution.version,
        python_tag=python_tag,
        platform=platform,
        content_sha256=content_digest(files),
        verified=sum(1 for digest in found.values() if digest),
        differing=[entry.path for entry in chosen if found[entry.path] not in {"", entry.sha256}],
        missing=[entry.path for entry in chosen if not found[entry.path]],
    )


def _hash(path: Path) -> str:
    return sha256_file(path) if path.is_file() else ""


def _tag(wheel: str) -> tuple[str, str]:
    """Python and platform of the first tag in a WHEEL file: ``cp311-cp311-manylinux_2_28_x86_64``."""
    for line in wheel.splitlines():
        key, _, value = line.partition(":")
        if key == "Tag":
            python, _, rest = value.strip().partition("-")
            return python, rest.partition("-")[2]
    return "", ""
