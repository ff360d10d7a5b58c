"""Rows as files: found by id or path, read once, digested as bytes."""

from __future__ import annotations

from pathlib import Path

from samebits import hashing, schema
from samebits.errors import InputError, RowError
from samebits.pins.row import Row


def find(path_or_id: str | Path) -> Path:
    """The file of the row that ``path_or_id`` names: a TOML file, or the id of one under ``lock/``.

    Raises:
        InputError: no row has this id; names the nearest one and all others.
    """
    return schema.locate("lock", path_or_id, field="row")


def load(path_or_id: str | Path) -> Row:
    """The row in the file that ``path_or_id`` names.

    Raises:
        InputError: not found, unreadable, not TOML, or not a row; an id that is not its file's name.
    """
    path = find(path_or_id)
    return parse(schema.read(path), source=path.name)


def parse(content: bytes, *, source: str) -> Row:
    """The row in ``content``, the bytes of a file called ``source``.

    Raises:
        InputError: not TOML, or not a row.
    """
    row = schema.parse_toml(Row, content, source=source)
    expected = source.removesuffix(".toml")
    if source.endswith(".toml") and row.id != expected:
        raise InputError(
            f"{source}: id",
            found=repr(row.id),
            accepted=repr(expected),
            next_step="Name the file after the row's id.",
        )
    return row


def digest(content: bytes) -> str:
    """The material digest: sha256 of the row file's bytes, as ``sha256sum`` prints it."""
    return hashing.sha256_bytes(content)


def known() -> list[str]:
    """Ids of all rows that :func:`find` would find."""
    return schema.identifiers("lock")


def requirements(row_file: Path) -> Path:
    """The hashed requirements beside a row file, their digest checked.

    Raises:
        RowError: missing, or not the file that the row names by digest.
    """
    row = parse(schema.read(row_file), source=row_file.name)
    path = row_file.with_name(row.requirements.file)
    found = hashing.sha256_file(path) if path.is_file() else "no such file"
    if found != row.requirements.sha256:
        raise RowError(
            f"{row_file.name}: requirements.sha256",
            found=found,
            accepted=row.requirements.sha256,
            next_step=f"Make {path.name} and its digest again: samebits lock {row.id}",
        )
    return path
