"""``images/docker-bake.json``: one target a row, made from the row files, so that an image is never built by hand.

Targets hold what the rows say.  What differs from one checkout or machine to the next (commit, wheels, output) is a
variable, or is set by :mod:`samebits.containers.build`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from samebits import pins, schema
from samebits.containers.daemon import ARCHITECTURES
from samebits.containers.dockerfile import base
from samebits.errors import RowError
from samebits.hashing import sha256_bytes
from samebits.pins import Row

FILE: Final = Path("images/docker-bake.json")


def target(row_id: str) -> str:
    """The target's name: bake has no dots in names."""
    return row_id.replace(".", "-")


def tag(row_id: str) -> str:
    """What people call the image.  The kit itself only ever uses its digest."""
    return f"samebits/{row_id}"


def buildable(root: Path) -> list[tuple[Row, bytes]]:
    """Rows under ``root`` that have a Dockerfile, by id, with their files' bytes."""
    paths = sorted((root / "lock").glob("*.toml"))
    loaded = [pins.load(path) for path in paths]
    return [(row, data) for row, data in loaded if row.dockerfile is not None]


def render(root: Path) -> str:
    """The file's text.

    Raises:
        RowError: a row names a Dockerfile that is not there or starts from another base than the row pins.
    """
    targets = {target(row.id): _target(row, data, root) for row, data in buildable(root)}
    content = {
        "variable": {"REVISION": {"default": "unknown"}, "SOURCE_DATE_EPOCH": {"default": "0"}},
        "group": {"default": {"targets": sorted(targets)}},
        "target": targets,
    }
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def check(root: Path) -> None:
    """Nothing, if the file is what the rows say.

    Raises:
        RowError: it is not.
    """
    path = root / FILE
    wanted = render(root)
    if not path.is_file() or path.read_text() != wanted:
        raise RowError(
            str(FILE),
            found=f"sha256 {sha256_bytes(path.read_bytes())}" if path.is_file() else "no such file",
            accepted=f"sha256 {sha256_bytes(wanted.encode())}, as the rows say",
            next_step="Make it again: samebits images bake",
        )


def _target(row: Row, data: bytes, root: Path) -> dict[str, Any]:
    _check_base(row, root)
    arguments = {
        "MATERIAL": pins.digest(data),
        "REVISION": "${REVISION}",
        "ROW": row.id,
        "SOURCE_DATE_EPOCH": "${SOURCE_DATE_EPOCH}",
    }
    if row.requirements is not None:
        arguments["REQUIREMENTS"] = row.requirements.file
    if row.stack is not None:
        arguments["STACK_REQUIREMENTS"] = row.stack.requirements.file
    builds = torch_requirement(row)
    if builds:
        arguments["TORCH"] = builds
    return {
        "args": arguments,
        "context": ".",
        "dockerfile": row.dockerfile,
        "platforms": [f"linux/{ARCHITECTURES[row.hardware.arch]}"],
        "tags": [tag(row.id)],
    }


def torch_requirement(row: Row) -> str:
    """The line that installs torch in the row's image: the builds with which the row was certified, or else all.

    Empty where the base image brings torch.
    """
    if row.stack is not None and row.stack.in_base_image:
        return ""
    pinned = next((package.version for package in row.packages if package.name == "torch"), None)
    wheels = {build.wheel_sha256: build.status for build in row.torch_builds if build.wheel_sha256 is not None}
    seen = [digest for digest, status in wheels.items() if status == "certified here"] or list(wheels)
    if pinned is None or not seen:
        return ""
    return " ".join([f"torch=={pinned}", *(f"--hash=sha256:{digest}" for digest in seen)])


def _check_base(row: Row, root: Path) -> None:
    assert row.dockerfile is not None  # noqa: S101 - buildable() has seen to it
    path = root / row.dockerfile
    found = base(schema.read(path).decode())
    if found != row.base_image:
        raise RowError(
            f"row {row.id}: base_image",
            found=str(row.base_image),
            accepted=f"{found}, from which {row.dockerfile} starts",
            next_step="Make the two the same.",
        )
