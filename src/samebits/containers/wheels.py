"""The wheels of an image, fetched before it is built, so that no build step needs a network.

pip fetches them from wherever the user's pip is told to look; what counts is the sha256 that ``lock/`` says.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from samebits.containers.daemon import complaint
from samebits.errors import RowError
from samebits.hashing import sha256_file
from samebits.pins import Row, hashed

_GLIBC: Final = 36
"""Minor version of the C library in Debian 12, the oldest of the bases."""


def platforms(arch: str) -> list[str]:
    """Tags of wheels that the bases can run, newest first (PEP 600); pip expands only the old names by itself."""
    return [f"manylinux_2_{minor}_{arch}" for minor in range(_GLIBC, 4, -1)] + [
        f"manylinux2014_{arch}",
        f"linux_{arch}",
    ]


def fetch(requirements: Sequence[Path], folder: Path, *, python: str, arch: str, torch: str = "") -> None:
    """Put every wheel of the hashed ``requirements`` and of the line ``torch`` into ``folder``, for ``python`` (3.11).

    What lies there already and has a digest of the lock is kept; what has not is an error.

    Raises:
        RowError: a file in the folder has another digest than the lock says.
        MachineError: pip finds no such wheel, or the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = [path.read_text() for path in requirements] + [torch]
    check(folder, texts)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--only-binary=:all:", "--dest", str(folder), "--find-links", str(folder)]
    command += ["--python-version", python, "--implementation", "cp"]
    command += [f"--abi={abi}" for abi in (f"cp{python.replace('.', '')}", "abi3", "none")]
    command += [f"--platform={tag}" for tag in platforms(arch)]
    for path in requirements:
        command += ["--requirement", str(path)]
    if torch:
        line = folder.with_name(f"{folder.name}.torch.txt")
        line.write_text(torch + "\n")
        command += ["--requirement", str(line)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        if "DO NOT MATCH THE HASHES" in finished.stderr:
            raise _tampered("a wheel that pip fetched", finished.stderr.partition("HASHES")[2])
        raise complaint("pip download", finished.stderr)
    check(folder, texts)


def check(folder: Path, locks: Iterable[str]) -> None:
    """Nothing, if every file in ``folder`` has a digest that one of the hashed requirements in ``locks`` lists.

    Raises:
        RowError: one has not.
    """
    listed = {digest for text in locks for pin in hashed.parse(text, source="lock") for digest in pin.hashes}
    for path in sorted(folder.iterdir()):
        found = sha256_file(path)
        if found not in listed:
            raise _tampered(str(path), f"sha256 {found}")


def of_row(row: Row, root: Path) -> list[Path]:
    """The hashed requirements that the row's image installs, their digests checked.

    Raises:
        RowError: one is not the file that the row names by digest.
    """
    named = [row.requirements, row.stack.requirements if row.stack else None]
    found = []
    for requirements in named:
        if requirements is None:
            continue
        path = root / "lock" / requirements.file
        digest = sha256_file(path) if path.is_file() else "no such file"
        if digest != requirements.sha256:
            raise RowError(
                f"lock/{requirements.file}",
                found=digest,
                accepted=f"{requirements.sha256}, as lock/{row.id}.toml says",
                next_step=f"Restore it, or make it again: nox -s lock -- {path.stem}",
            )
        found.append(path)
    return found


def _tampered(what: str, found: str) -> RowError:
    return RowError(
        what,
        found=" ".join(found.split())[:400],
        accepted="a wheel whose sha256 the lock lists",
        next_step="Remove it and build again; if it comes back, ask where pip gets it from.",
    )
