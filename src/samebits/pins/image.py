"""The image that a run happens in, as its record says.

The record is written where the image was built and checked there before every start (:mod:`samebits.containers`); a
process inside the image finds a copy of it, read-only, beside the image's own manifest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from samebits import schema
from samebits.errors import RowError
from samebits.hashing import sha256_bytes
from samebits.pins.row import GitObject, Identifier, Sha256, Text
from samebits.schema import Closed

PLACE: Final = Path("/run/samebits")
"""Where a container finds the two files below; nothing is there outside of one."""

RECORD: Final = "image.json"
MANIFEST: Final = "image.manifest.json"

ImageId = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class Base(Closed):
    """What the image starts from: what its row pins, and what it really was."""

    pinned: Text
    used: Text
    """The same, or another image that stood in for it; a certificate says so."""

    @property
    def stood_in(self) -> bool:
        """Whether another image stood in for the pinned base."""
        return self.pinned != self.used


class Record(Closed):
    """One built image."""

    schema_version: Literal[1]
    row: Identifier
    row_sha256: Sha256
    kit_sha256: Sha256
    revision: GitObject | Literal["unknown"]
    """Commit of the checkout; files that were changed since are not told by it, the kit digest tells them."""
    image: ImageId
    """The image's digest: sha256 of its OCI manifest."""
    base: Base
    inventory_sha256: Sha256
    """Of the inventory inside."""
    sbom_sha256: Sha256
    arch: Text
    built_on: Text


@dataclass(frozen=True, slots=True)
class RunningImage:
    """The record, and the bytes of the manifest whose sha256 is the image's digest."""

    record: Record
    manifest: bytes


def read(folder: Path, *, record: str = RECORD, manifest: str = MANIFEST) -> RunningImage:
    """The two files in ``folder``.

    Raises:
        InputError: the record is not one.
        RowError: the manifest is not the image's.
        OSError: one of them cannot be read.
    """
    data = (folder / record).read_bytes()
    try:
        said = json.loads(data)
    except ValueError:
        said = None
    loaded = schema.parse(Record, said, source=record)
    content = (folder / manifest).read_bytes()
    found = f"sha256:{sha256_bytes(content)}"
    if found != loaded.image:
        raise RowError(
            str(folder / manifest),
            found=found,
            accepted=f"{loaded.image}, the image's digest",
            next_step=f"Build the image again: nox -s images -- {loaded.row}",
        )
    return RunningImage(loaded, content)


def here(place: Path = PLACE) -> RunningImage | None:
    """The image that this process runs in, as whoever started it says; None outside of a container.

    Raises:
        as :func:`read`.
    """
    return read(place) if (place / RECORD).is_file() else None


def limitations(record: Record) -> list[str]:
    """What a certificate from this image must say."""
    if not record.base.stood_in:
        return []
    stood_in = f"The image was built on {record.base.used}, which stood in for the pinned base {record.base.pinned}: "
    return [stood_in + "the Dockerfile's steps are the row's, the system libraries below them are not."]
