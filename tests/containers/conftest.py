from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path

import docker
import pytest

from samebits import pins
from samebits.containers import record
from samebits.hashing import sha256_bytes
from samebits.pins import inventory
from samebits.pins.image import Base, Record

CHECKOUT = Path(__file__).parents[2]
PINNED = "python:3.11-slim-bookworm@sha256:" + "b" * 64


class FakeImage:
    def __init__(self, client, image_id, labels, arch):
        self._client = client
        self.id, self.labels, self.attrs = image_id, labels, {"Architecture": arch}

    def tag(self, name):
        self._client.tags[name] = self.id
        return True


class FakeContainer:
    def __init__(self, files):
        self._files = files
        self.removed = False

    def get_archive(self, path):
        if path not in self._files:
            raise docker.errors.NotFound("no such file")
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as tar:
            member = tarfile.TarInfo(Path(path).name)
            member.size = len(self._files[path])
            tar.addfile(member, io.BytesIO(self._files[path]))
        return [stream.getvalue()], {}

    def remove(self, force):
        self.removed = force


class FakeDocker:
    """An engine in memory, as far as the kit asks one: images by id, tags, and files in images."""

    def __init__(self):
        self.by_id = {}
        self.tags = {}
        self.files = {}
        self.created = []
        self.arch = "x86_64"
        self.images = self
        self.containers = self

    def info(self):
        return {"Architecture": self.arch}

    def get(self, name):
        image_id = self.tags.get(name, name)
        if image_id not in self.by_id:
            raise docker.errors.ImageNotFound("no such image")
        return self.by_id[image_id]

    def create(self, image_id, command=None, **options):
        container = FakeContainer(self.files[image_id])
        self.created.append((image_id, command, options, container))
        return container


@pytest.fixture
def row():
    return pins.load(CHECKOUT / "lock" / "cpu.toml")[0]


@pytest.fixture
def material():
    return pins.digest((CHECKOUT / "lock" / "cpu.toml").read_bytes())


@pytest.fixture
def held(row, material):
    """The inventory of an image that is as the row pins."""
    path = CHECKOUT / "lock" / row.requirements.file
    pinned = pins.hashed.parse(path.read_text(), source=path.name)
    where = {"python_version": "3.11", "python_full_version": "3.11.0", "platform_machine": "x86_64"}
    distributions = {
        pin.name: {"version": pin.version, "record_sha256": sha256_bytes(pin.name.encode())}
        for pin in pinned
        if pin.applies(where | {"sys_platform": "linux"})
    }
    distributions["torch"] = {"version": "2.13.0+cpu", "record_sha256": row.torch_builds[0].content_sha256}
    return inventory.Inventory.model_validate(
        {
            "schema_version": 1,
            "row": row.id,
            "row_sha256": material,
            "revision": "unknown",
            "arch": "x86_64",
            "environments": {
                inventory.KIT: {
                    "python": "3.11",
                    "distributions": distributions,
                    "libraries": {"lib/libtorch_cpu.so": "1" * 64},
                }
            },
        }
    )


@pytest.fixture
def made(tmp_path, row, material, held):
    """A recorded image, its folder, and the engine that holds it."""
    manifest = json.dumps({"schemaVersion": 2}).encode()
    image_id = f"sha256:{sha256_bytes(manifest)}"
    client = FakeDocker()
    labels = {"samebits.row": row.id, "samebits.material": material}
    client.by_id[image_id] = FakeImage(client, image_id, labels, "amd64")
    client.tags["samebits/cpu"] = image_id
    client.files[image_id] = {str(inventory.PLACE): inventory.render(held)}
    said = Record(
        schema_version=1,
        row=row.id,
        row_sha256=material,
        kit_sha256=pins.kit_sha256(),
        revision="unknown",
        image=image_id,
        base=Base(pinned=row.base_image, used=row.base_image),
        inventory_sha256=inventory.digest(held),
        sbom_sha256="5" * 64,
        arch="x86_64",
        built_on="2026-11-30T12:00:00Z",
    )
    folder = tmp_path / ".images"
    record.write(said, manifest, folder)
    return client, said, folder


@pytest.fixture
def checkout(tmp_path):
    """The parts of a checkout that an image is built from, to be changed by a test."""
    root = tmp_path / "checkout"
    for name in ("lock", "images"):
        shutil.copytree(CHECKOUT / name, root / name)
    (root / "src").mkdir()
    (root / "src" / "samebits").symlink_to(CHECKOUT / "src" / "samebits")
    return root
