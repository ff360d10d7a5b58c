"""sha256 of files, folders and JSON values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path


def sha256_bytes(data: bytes) -> str:
    """sha256 of ``data`` as lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """sha256 of the file's bytes as lower-case hex, read in blocks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_files(root: Path, files: Iterable[Path]) -> str:
    """One digest over many files: of the lines ``<sha256>  <path relative to root>``, sorted by path.

    The same lines that ``sha256sum`` prints, so that the digest can be made without us.
    """
    relative = sorted(path.relative_to(root).as_posix() for path in files)
    lines = "".join(f"{sha256_file(root / name)}  {name}\n" for name in relative)
    return sha256_bytes(lines.encode())


def sha256_json(value: object) -> str:
    """sha256 of ``value`` as JSON with sorted keys and no spaces; ``value`` holds no floats."""
    return sha256_bytes(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())
