"""What an image holds: every distribution and every shared library, written down while it is built.

The image's digest covers its files; the inventory says which of them compute.  It lies inside, so that ``doctor`` and
a run can tell an image that was changed after it was built from the one that was certified: an extra package, a
library that was replaced, a version that moved.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from packaging.utils import canonicalize_name
from pydantic import ValidationError

from samebits.errors import RowError
from samebits.hashing import sha256_bytes, sha256_file
from samebits.pins.content import content_digest, entries, is_shared_library
from samebits.pins.row import GitObject, Identifier, Sha256, Text
from samebits.schema import Closed

PLACE: Final = Path("/opt/kit/inventory.json")
"""Where an image keeps it, and nothing else does."""

KIT: Final = "/opt/samebits"
"""Prefix of the kit's own environment in an image; another one is the stack of the row's workers."""

_UNPACKED: Final = ("lib/python3*/site-packages", "lib/python3*/dist-packages")
_LARGEST: Final = 64 << 20


class Distribution(Closed):
    """One installed distribution."""

    version: Text
    record_sha256: Sha256
    """Content digest by its RECORD, see :mod:`samebits.pins.content`: paths and digests, without what pip wrote."""


class Environment(Closed):
    """One tree of packages: a virtual environment, or a system's own."""

    python: Text
    """``3.11``: whose packages these are."""
    distributions: dict[str, Distribution]
    """By normalised name."""
    libraries: dict[str, Sha256]
    """sha256 of every shared library under the prefix, whether a RECORD knows it or not, by relative path."""


class Inventory(Closed):
    """The file's content."""

    schema_version: Literal[1]
    row: Identifier
    row_sha256: Sha256
    """The material digest that the image was built from."""
    revision: GitObject | Literal["unknown"]
    """Commit of the kit that the image holds."""
    arch: Text
    environments: dict[str, Environment]
    """By absolute prefix."""


def take(prefixes: Iterable[Path], *, row: str, row_sha256: str, revision: str) -> Inventory:
    """The inventory of ``prefixes`` now; reads every shared library once.

    Raises:
        RowError: a distribution without RECORD, or one that is there twice.
    """
    return Inventory(
        schema_version=1,
        row=row,
        row_sha256=row_sha256,
        revision=revision,
        arch=platform.machine(),
        environments={str(prefix): _environment(prefix) for prefix in prefixes},
    )


def again(built: Inventory) -> Inventory:
    """The same places, looked at now."""
    prefixes = [Path(prefix) for prefix in built.environments]
    return take(prefixes, row=built.row, row_sha256=built.row_sha256, revision=built.revision)


def load(path: Path | None = None) -> Inventory | None:
    """The inventory of the image that this process runs in; None outside of one.

    Raises:
        RowError: the file is there and is no inventory.
    """
    path = path or PLACE
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST)
    except FileNotFoundError:
        return None
    return parse(data, source=str(path))


def parse(data: bytes, *, source: str) -> Inventory:
    """The inventory in ``data``.

    Raises:
        RowError: not one; ``source`` names the file.
    """
    try:
        return Inventory.model_validate_json(data)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise RowError(
            source,
            found=f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg']}",
            accepted="an inventory as images are built with",
            next_step="Build the image again: samebits images build ROW",
        ) from None


def render(inventory: Inventory) -> bytes:
    """The file's bytes: keys sorted, so that equal images have equal inventories."""
    return (json.dumps(inventory.model_dump(), indent=1, sort_keys=True) + "\n").encode()


def digest(inventory: Inventory) -> str:
    """sha256 of :func:`render`."""
    return sha256_bytes(render(inventory))


def differences(built: Inventory, found: Inventory) -> list[str]:
    """What is no longer as it was built, in words, packages before libraries."""
    said: list[str] = []
    for prefix, before in built.environments.items():
        now = found.environments.get(prefix, Environment(python=before.python, distributions={}, libraries={}))
        said += _changes(
            {name: f"{one.version} {one.record_sha256}" for name, one in before.distributions.items()},
            {name: f"{one.version} {one.record_sha256}" for name, one in now.distributions.items()},
            "package",
        )
        said += _changes(before.libraries, now.libraries, "library")
    return said


def _changes(before: Mapping[str, str], now: Mapping[str, str], what: str) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        if name not in before:
            yield f"extra {what} {name}"
        elif name not in now:
            yield f"no {what} {name}"
        elif before[name] != now[name]:
            yield f"another {what} {name}"


def _environment(prefix: Path) -> Environment:
    folders = [path for pattern in _UNPACKED for path in sorted(prefix.glob(pattern))]
    found: dict[str, Distribution] = {}
    for distribution in metadata.distributions(path=[str(folder) for folder in folders]):
        name = canonicalize_name(distribution.metadata["Name"])
        record = distribution.read_text("RECORD")
        if record is None or name in found:
            raise RowError(
                f"{prefix}: {name}",
                found="installed without a RECORD" if record is None else "installed twice",
                accepted="one installation from a wheel",
                next_step="Mend the Dockerfile: what is installed must be known by digest.",
            )
        found[name] = Distribution(version=distribution.version, record_sha256=content_digest(entries(record)))
    if not folders:
        raise RowError(
            str(prefix), found="no Python packages", accepted="an environment", next_step="Mend the Dockerfile."
        )
    return Environment(
        python=folders[0].parent.name.removeprefix("python"),
        distributions=dict(sorted(found.items())),
        libraries={path.relative_to(prefix).as_posix(): sha256_file(path) for path in _libraries(prefix)},
    )


def _libraries(prefix: Path) -> list[Path]:
    # A link's target is counted where it lies.
    paths = (path for path in prefix.rglob("*.so*") if is_shared_library(path.name))
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())
