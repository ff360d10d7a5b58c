"""Rows as files: found by id or path, read once, digested as bytes."""

from __future__ import annotations

from pathlib import Path

from samebits import hashing, schema
from samebits.errors import InputError, RowError
from samebits.pins.row import Requirements, Row


def find(path_or_id: str | Path) -> Path:
    """The file of the row that ``path_or_id`` names: a TOML file, or the id of one under ``lock/``.

    Raises:
        InputError: no row has this id; names the nearest one and all others.
    """
    return schema.locate("lock", path_or_id, field="row")


def load(path_or_id: str | Path) -> tuple[Row, bytes]:
    """The row that ``path_or_id`` names, and the bytes of its file: they are a subject of the certificate.

    Raises:
        InputError: not found, unreadable, not TOML, not a row; found by an id that the file itself does not say.
    """
    path = find(path_or_id)
    content = schema.read(path)
    row = parse(content, source=path.name)
    if str(path_or_id) == path.stem and row.id != path.stem:
        raise InputError(
            f"{path.name}: id",
            found=repr(row.id),
            accepted=repr(path.stem),
            next_step="Name the file after the row's id.",
        )
    return row, content


def parse(content: bytes, *, source: str) -> Row:
    """The row in ``content``, the bytes of a file called ``source``, for instance the copy beside a certificate.

    Raises:
        InputError: not TOML, or not a row.
    """
    return schema.parse_toml(Row, content, source=source)


def digest(content: bytes) -> str:
    """The material digest: sha256 of the row file's bytes, as ``sha256sum`` prints it."""
    return hashing.sha256_bytes(content)


def known() -> list[str]:
    """Ids of all rows that :func:`find` would find."""
    return schema.identifiers("lock")


def locate(wanted: Requirements) -> tuple[Path | None, str]:
    """The requirements under ``lock/`` with the wanted digest; or None, and the digest of the file of that name there.

    The digest is empty where there is no such file.
    """
    paths = [folder / wanted.file for folder in schema.folders("lock") if (folder / wanted.file).is_file()]
    digests = [hashing.sha256_file(path) for path in paths]
    path = next((path for path, found in zip(paths, digests, strict=True) if found == wanted.sha256), None)
    return path, digests[0] if digests else ""


def requirements(row_file: Path) -> Path:
    """The hashed requirements beside a row file, their digest checked.

    Raises:
        RowError: none, missing, or not the file that the row names by digest.
    """
    row = parse(schema.read(row_file), source=row_file.name)
    if row.requirements is None:
        raise RowError(
            f"{row_file.name}: requirements",
            found="nothing",
            accepted="a table: this row's stack is installed from hashed requirements",
            next_step="Use the row's image: it brings everything.",
        )
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
