"""Whether an image may be certified in: it is the one that was built, and it holds what the row pins.

Asked before every start, of Docker itself: a record is only a file, and a tag only a name.
"""

from __future__ import annotations

import io
import tarfile
from typing import Any

import docker
from docker.errors import ImageNotFound

from samebits import pins
from samebits.containers import bake
from samebits.containers.daemon import ARCHITECTURES, explained
from samebits.errors import InputError, RowError
from samebits.pins import Row, contents, inventory
from samebits.pins.image import Record


def admit(client: docker.DockerClient, row: Row, row_sha256: str, record: Record) -> None:
    """Nothing, if containers of the recorded image may be started for ``row``.

    Raises:
        InputError: the image is gone.
        RowError: another row file or kit, a moved tag, another architecture, or contents that are not what was built.
        MachineError: the engine fails.
    """
    _same(record.row_sha256, row_sha256, f"row {row.id}: image", "built from the row file with sha256 {}", row)
    _same(record.kit_sha256, pins.kit_sha256(), f"row {row.id}: image", "holding the kit with sha256 {}", row)
    inspect(client, row, record.image, record.row_sha256)
    held = holds(client, row, record.image)
    _same(inventory.digest(held), record.inventory_sha256, f"row {row.id}: inventory", "inventory with sha256 {}", row)


def inspect(client: docker.DockerClient, row: Row, image_id: str, row_sha256: str) -> None:
    """What Docker says of the image: its architecture, its labels, and that the row's tag still names it.

    Raises:
        InputError: no such image.
        RowError: one of these is not the row's.
    """
    image, tagged = _find(client, image_id), _find(client, bake.tag(row.id))
    if image is None:
        raise InputError(
            f"row {row.id}: image",
            found=f"no {image_id} in this Docker engine",
            accepted="the image that was built and recorded here",
            next_step=f"Build it: nox -s images -- {row.id}",
        )
    if tagged is not None and tagged.id != image_id:
        raise RowError(
            f"image {bake.tag(row.id)}",
            found=f"a tag that was moved to {tagged.id}",
            accepted=f"{image_id}, which was built and recorded",
            next_step=f"Find out who moved it; build again with nox -s images -- {row.id}, or remove the tag.",
        )
    arch = str(image.attrs.get("Architecture"))
    _same(arch, ARCHITECTURES[row.hardware.arch], f"row {row.id}: image architecture", "{}", row)
    labels = image.labels
    _same(labels.get("samebits.row", "no label"), row.id, f"row {row.id}: image label", "samebits.row {}", row)
    _same(labels.get("samebits.material", "no label"), row_sha256, f"row {row.id}: image label", "material {}", row)


def holds(client: docker.DockerClient, row: Row, image_id: str) -> inventory.Inventory:
    """The inventory inside the image, held against the row.

    Raises:
        RowError: there is none, or it is not what the row pins.
        MachineError: the engine fails.
    """
    data = read_file(client, image_id, str(inventory.PLACE))
    held = inventory.parse(data, source=f"image of row {row.id}: {inventory.PLACE}")
    for finding in contents.against(row, held):
        if not finding.ok:
            raise RowError(
                f"row {row.id}: {finding.name}",
                found=finding.found,
                accepted=finding.accepted,
                next_step=f"Build the image again: nox -s images -- {row.id}",
            )
    return held


def read_file(client: docker.DockerClient, image_id: str, path: str) -> bytes:
    """One file of an image, without starting anything in it.

    Raises:
        RowError: it is not there.
        MachineError: the engine fails.
    """
    with explained(f"image {image_id}"):
        container = client.containers.create(image_id, network_mode="none")
        try:
            stream, _ = container.get_archive(path)
            archive = io.BytesIO(b"".join(stream))
        except docker.errors.NotFound:
            archive = None
        finally:
            container.remove(force=True)
    if archive is None:
        raise RowError(
            f"image {image_id}",
            found=f"no {path}",
            accepted="an image that one of the kit's Dockerfiles built",
            next_step="Build it with nox -s images -- ROW.",
        )
    with tarfile.open(fileobj=archive) as tar:
        member = tar.next()
        content = None if member is None else tar.extractfile(member)
        return b"" if content is None else content.read()


def _find(client: docker.DockerClient, name: str) -> Any:
    with explained(f"image {name}"):
        try:
            return client.images.get(name)
        except ImageNotFound:
            return None


def _same(found: str, accepted: str, field: str, words: str, row: Row) -> None:
    if found != accepted:
        raise RowError(
            field,
            found=words.format(found),
            accepted=words.format(accepted),
            next_step=f"Build it again: nox -s images -- {row.id}",
        )
