"""The kit digest: on native rows the kit itself is the stack, so its source is pinned like any other material."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from samebits.errors import RowError
from samebits.hashing import sha256_files

ROOMS: Final = ("actor", "engine", "models", "ops", "oracle")
"""Rooms whose code decides bits or verdicts; the others carry, gate, sign and print."""

_PACKAGE: Final = Path(__file__).resolve().parents[1]


def kit_files(package: Path = _PACKAGE) -> list[Path]:
    """Python sources of :data:`ROOMS` under the package's folder.

    Raises:
        RowError: a room is missing or empty; a digest over nothing would look like any other.
    """
    files: list[Path] = []
    for room in ROOMS:
        sources = sorted((package / room).rglob("*.py"))
        if not sources:
            raise RowError(
                f"kit: {room}", found="no sources", accepted="the whole kit", next_step="Install samebits again."
            )
        files += sources
    return files


def kit_sha256(package: Path = _PACKAGE) -> str:
    """Digest over :func:`kit_files`. In a checkout: ``cd src/samebits; sha256sum FILES | sha256sum``, FILES sorted."""
    return sha256_files(package, kit_files(package))
