"""Building a row's image: wheels by digest, buildx without a network, then what came out, held against the row."""

from __future__ import annotations

import datetime as dt
import json
import platform
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import docker

from samebits import pins, schema
from samebits.containers import admit, bake, daemon, record, wheels
from samebits.containers.reference import require_pinned
from samebits.errors import InputError, MachineError, RowError
from samebits.hashing import sha256_file
from samebits.pins import Row, inventory
from samebits.pins.image import Base, Record

Say = Callable[[str], None]

_ARCHIVE_GIB: Final = 3
"""Room for the archive of an image, its wheels and its SBOM, beside what Docker itself keeps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Builder:
    """One checkout, one Docker engine, one folder for what is built."""

    root: Path
    """The checkout."""
    folder: Path
    """For records and wheels."""
    base: str | None = None
    """An image that stands in for the row's base; certificates say so."""
    say: Say = lambda _: None

    def build(self, row_id: str) -> Record:
        """Build, check, record and tag the image of a row; what was recorded before is replaced.

        Raises:
            InputError: no such row, or a stand-in that is named by a tag.
            RowError: the bake file, a requirement, a wheel or the image is not what the row says; or the row needs
                wheels that somebody must build first.
            MachineError: no engine answers, it is of another architecture, the disk is full, or a step fails.
        """
        path = self.root / "lock" / f"{row_id}.toml"
        row, data = pins.load(path if path.is_file() else row_id)
        _require_buildable(row)
        if self.base is not None:
            require_pinned(self.base, field="--base")
        bake.check(self.root)
        requirements = wheels.of_row(row, self.root)
        client = daemon.connect()
        _require_architecture(client, row)
        self._require_room(row)
        self._fetch(row, requirements)
        archive = self.folder / f"{row.id}.oci.tar"
        try:
            image_id = self._bake(row, archive)
            manifest = _manifest(archive, image_id)
            self.say(f"loading {image_id}")
            with daemon.explained(f"row {row.id}: docker load"), archive.open("rb") as stream:
                client.images.load(stream)
            with daemon.explained(f"row {row.id}: docker tag"):
                client.images.get(image_id).tag(bake.tag(row.id))
            admit.inspect(client, row, image_id, pins.digest(data))
            held = admit.holds(client, row, image_id)
            self.say("writing the SBOM")
            sbom = self._sbom(row, archive)
        finally:
            archive.unlink(missing_ok=True)
        made = Record(
            schema_version=1,
            row=row.id,
            row_sha256=pins.digest(data),
            kit_sha256=pins.kit_sha256(self.root / "src" / "samebits"),
            revision=_revision(self.root),
            image=image_id,
            base=Base(pinned=str(row.base_image), used=self.base or str(row.base_image)),
            inventory_sha256=inventory.digest(held),
            sbom_sha256=sha256_file(sbom),
            arch=row.hardware.arch,
            built_on=dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        record.write(made, manifest, self.folder)
        return made

    def digest(self, row_id: str) -> str:
        """Build without any cache and return the image's digest only: what two builds must agree on.

        Raises:
            as :meth:`build`.
        """
        path = self.root / "lock" / f"{row_id}.toml"
        row, _ = pins.load(path)
        archive = self.folder / f"{row.id}.again.oci.tar"
        try:
            return self._bake(row, archive, "--no-cache")
        finally:
            archive.unlink(missing_ok=True)

    def _log(self, row: Row) -> Path:
        return self.folder / "logs" / f"{row.id}.log"

    def _wheels(self, row: Row) -> Path:
        return self.folder / "wheels" / row.id

    def _fetch(self, row: Row, requirements: list[Path]) -> None:
        self.say("fetching wheels that lie not here yet")
        assert row.dockerfile is not None  # noqa: S101 - _require_buildable has seen to it
        text = schema.read(self.root / row.dockerfile).decode()
        python = re.search(r"(?m)^ARG PYTHON=(\S+)$", text)
        wheels.fetch(
            requirements,
            self._wheels(row),
            python=python.group(1) if python else "3.12",
            arch=row.hardware.arch,
            torch=bake.torch_requirement(row),
        )

    def _bake(self, row: Row, archive: Path, *options: str) -> str:
        """The image's digest; the image itself is in ``archive``."""
        name = bake.target(row.id)
        metadata = self.folder / f"{row.id}.bake.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            f"{name}.contexts.wheels": str(self._wheels(row).absolute()),
            # Times of files are the commit's, and zstd's fastest level: gzip takes minutes for torch.
            f"{name}.output": f"type=oci,dest={archive.absolute()},rewrite-timestamp=true"
            ",compression=zstd,compression-level=1,force-compression=true",
        }
        if self.base is not None:
            settings[f"{name}.contexts.{row.base_image}"] = f"docker-image://{_known_here(self.base)}"
        command = ["docker", "buildx", "bake", "--file", str(bake.FILE), "--progress=plain", "--provenance=false"]
        command += ["--metadata-file", str(metadata.absolute()), *options]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self.say("building, without a network")
        log = self._log(row)
        log.parent.mkdir(parents=True, exist_ok=True)
        daemon.run(
            f"row {row.id}: docker buildx bake",
            [*command, name],
            environment={"REVISION": _revision(self.root), "SOURCE_DATE_EPOCH": _epoch(self.root)},
            folder=self.root,
            log=log,
        )
        return str(json.loads(metadata.read_text())[name]["containerimage.digest"])

    def _sbom(self, row: Row, archive: Path) -> Path:
        target = record.sbom_path(row.id, self.folder)
        command = ["syft", "scan", "--quiet", f"oci-archive:{archive}", "--output", f"cyclonedx-json={target}"]
        daemon.run(f"row {row.id}: syft", command, log=self._log(row))
        return target

    def _require_room(self, row: Row) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder).free >> 30
        wanted = row.hardware.disk_gib + _ARCHIVE_GIB
        if free < wanted:
            raise MachineError(
                f"row {row.id}: disk",
                found=f"{free} GiB free for {self.folder}",
                accepted=f"{wanted} GiB",
                next_step="Free space, or choose another folder with --folder.",
            )


def _require_buildable(row: Row) -> None:
    if row.dockerfile is None or row.base_image is None:
        raise InputError(
            f"row {row.id}",
            found="no Dockerfile",
            accepted="a row with dockerfile and base_image",
            next_step="docs/rows.md says how a row gets an image.",
        )
    missing = [one.name for one in row.materials if one.within == "wheel" and one.wheel_sha256 is None]
    if missing:
        raise RowError(
            f"row {row.id}: materials",
            found=f"no wheel_sha256 for {', '.join(missing)}",
            accepted="the digest of a wheel that was built once from the pinned commit, on the row's hardware",
            next_step="Build these wheels on such a machine, put their digests into the row, then build the image.",
        )


def _known_here(base: str) -> str:
    """``name:tag`` of a base ``name:tag@digest`` that the engine holds under that name with that digest, else ``base``.

    BuildKit looks a digest up in a registry unless it has met the image before; an imported one is in none.
    """
    name, _, digest = base.partition("@")
    try:
        held = daemon.connect().images.get(name).id
    except docker.errors.DockerException:
        return base
    return name if held == digest else base


def _require_architecture(client: docker.DockerClient, row: Row) -> None:
    found = daemon.architecture(client)
    if found != row.hardware.arch:
        raise MachineError(
            f"row {row.id}: architecture",
            found=f"a Docker engine on {found}",
            accepted=row.hardware.arch,
            next_step=f"Build it on such a machine (this one is {platform.machine()}); emulated kernels prove nothing.",
        )


def _manifest(archive: Path, image_id: str) -> bytes:
    """The image's own manifest out of an OCI archive; its sha256 is the image's digest."""
    try:
        with tarfile.open(archive) as tar:
            stream = tar.extractfile(f"blobs/sha256/{image_id.removeprefix('sha256:')}")
            return b"" if stream is None else stream.read()
    except (OSError, KeyError, tarfile.TarError) as error:
        raise daemon.complaint(str(archive), str(error)) from None


def _git(root: Path, *arguments: str) -> str:
    finished = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return finished.stdout.strip() if finished.returncode == 0 else ""


def _revision(root: Path) -> str:
    return _git(root, "rev-parse", "HEAD") or "unknown"


def _epoch(root: Path) -> str:
    """Seconds of the commit: two builds of one commit carry the same times."""
    return _git(root, "log", "-1", "--format=%ct") or "0"
