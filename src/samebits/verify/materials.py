"""Whether recipe and row of a certificate are the files that this kit ships.

A certificate is worth what its recipe asks for, and whoever signs it chose the recipe.  The copies in the evidence are
held, by digest, against the kit's own files: never against those of the working directory, which may be anybody's.
Certificates outlive kits, so ``recipes/earlier.sha256`` and ``lock/earlier.sha256`` keep what earlier versions shipped,
in the lines that ``sha256sum *.toml`` prints.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from samebits import schema
from samebits.certificate import Material
from samebits.errors import InputError
from samebits.hashing import sha256_bytes
from samebits.verify.difference import Difference, differences

EARLIER: Final = "earlier.sha256"

_LISTED = 50
_TOLD = 4
_LINE = re.compile(r"([0-9a-f]{64})  ([a-z0-9][a-z0-9.-]*)\.toml")

Kind = Literal["recipe", "row"]
_FOLDERS: Final = {"recipe": "recipes", "row": "lock"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What this kit knows of a recipe or row.

    *shipped*: its very file.  *earlier*: the file of an earlier version.  *other content*: an id that it ships, over
    another file.  *unknown id*: no file of that name.
    """

    kind: Kind
    id: str
    sha256: str
    standing: Literal["shipped", "earlier", "other content", "unknown id"]
    shipped_sha256: str | None = None
    """Of the file that this kit ships under this id."""
    differences: list[Difference] = field(default_factory=list)
    """Where the content is another: the first few places, this file's value as *signed*, the kit's as *derived*."""

    @property
    def is_shipped(self) -> bool:
        """Whether some version of the kit ships it."""
        return self.standing in {"shipped", "earlier"}

    def __str__(self) -> str:
        if self.standing == "shipped":
            return f"{self.kind} {self.id} is the file that this kit ships"
        if self.standing == "earlier":
            return f"{self.kind} {self.id} is the file that an earlier version of this kit shipped"
        if self.standing == "unknown id":
            return f"{self.kind} {self.id} is NOT of this kit: it ships none of that id"
        told = [f"{one.path} is {one.signed}, shipped {one.derived}" for one in self.differences[:_TOLD]]
        more = len(self.differences) - len(told)
        told += [f"and {more}{' or more' if len(self.differences) == _LISTED else ''} other places"] if more else []
        where = "; ".join(told) or "in comments or layout alone"
        return f"{self.kind} {self.id} is NOT the file that this kit ships under that id: {where}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "id": self.id,
            "sha256": self.sha256,
            "standing": self.standing,
            "shippedSha256": self.shipped_sha256,
            "differences": [{"path": one.path, "here": one.signed, "shipped": one.derived} for one in self.differences],
        }


def standing(kind: Kind, material: Material, content: bytes) -> Standing:
    """What this kit knows of ``material``, whose file's bytes are ``content``."""
    folder = schema.own_folder(_FOLDERS[kind])
    own = _own(folder, material.id)
    about: dict[str, Any] = {"kind": kind, "id": material.id, "sha256": material.sha256}
    about["shipped_sha256"] = sha256_bytes(own) if own is not None else None
    if about["shipped_sha256"] == material.sha256:
        return Standing(**about, standing="shipped")
    if (material.sha256, material.id) in _earlier(folder):
        return Standing(**about, standing="earlier")
    if own is None:
        return Standing(**about, standing="unknown id")
    return Standing(**about, standing="other content", differences=list(_differences(content, own)))


def _own(folder: Path | None, id_: str) -> bytes | None:
    """The file of this id, if there is one.  An id is no path: only names of the folder's own files are compared."""
    for path in folder.glob("*.toml") if folder is not None else ():
        if path.stem == id_:
            return schema.read(path)
    return None


def _earlier(folder: Path | None) -> set[tuple[str, str]]:
    """(sha256, id) of what earlier versions shipped."""
    path = folder / EARLIER if folder is not None else None
    if path is None or not path.is_file():
        return set()
    found = set()
    for number, line in enumerate(schema.read(path).decode().splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise InputError(
                f"{path.name}: line {number}",
                found=repr(line)[:120],
                accepted="<sha256>  <id>.toml",
                next_step="Install samebits again.",
            )
        found.add((match[1], match[2]))
    return found


def _differences(content: bytes, own: bytes) -> Iterator[Difference]:
    here, ours = (schema.toml(text, source=source) for text, source in ((content, "this"), (own, "ours")))
    yield from itertools.islice(differences(here, ours), _LISTED)
