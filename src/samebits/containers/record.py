"""Where the records of built images lie: ``.images/``, beside the runs and ignored by git.

``<row>.json`` is the record, ``<row>.manifest.json`` the manifest of the image, ``<row>.cdx.json`` its SBOM.  Wheels,
logs and the cache of model weights lie there too.
"""

from __future__ import annotations

import json
from pathlib import Path

from samebits.certificate import write_atomic
from samebits.errors import InputError
from samebits.pins.image import Record, RunningImage, read


def record_path(row_id: str, folder: Path) -> Path:
    """Where the record of a row's image lies."""
    return folder / f"{row_id}.json"


def manifest_path(row_id: str, folder: Path) -> Path:
    """Where the image's manifest lies."""
    return folder / f"{row_id}.manifest.json"


def sbom_path(row_id: str, folder: Path) -> Path:
    """Where the image's SBOM lies, CycloneDX."""
    return folder / f"{row_id}.cdx.json"


def write(record: Record, manifest: bytes, folder: Path) -> None:
    """Keep the record and the manifest; those before are replaced, the record last."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(manifest_path(record.row, folder), manifest)
    text = json.dumps(record.model_dump(), indent=1, sort_keys=True) + "\n"
    write_atomic(record_path(record.row, folder), text.encode())


def load(row_id: str, folder: Path) -> RunningImage:
    """The record of a row's image and its manifest.

    Raises:
        InputError: none was built here, or the file is no record.
        RowError: the manifest is not the image's.
    """
    record, manifest = record_path(row_id, folder), manifest_path(row_id, folder)
    try:
        return read(folder, record=record.name, manifest=manifest.name)
    except OSError as error:
        raise InputError(
            f"image of row {row_id}",
            found=f"no {Path(error.filename or record).name} in {folder}",
            accepted="an image that was built and recorded here",
            next_step=f"Build it: nox -s images -- {row_id}",
        ) from None
