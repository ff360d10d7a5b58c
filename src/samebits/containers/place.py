"""How every container of the kit is shut in: no network, nothing writable but the run, nobody's keys.

Paths are the same inside and outside, so that a message may name a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from docker.types import DeviceRequest, Mount

from samebits.certificate import write_atomic
from samebits.containers.record import manifest_path, record_path
from samebits.pins import Row
from samebits.pins.image import MANIFEST, PLACE, RECORD, RunningImage

USER: Final = 10001
"""The image's own user, for callers who are root; others keep their ids, so that the run is theirs."""

SCRATCH: Final = "/tmp"  # noqa: S108 - a file system of the container's own
SCRATCH_OPTIONS: Final = "rw,nosuid,nodev,size=2g,mode=1777"
SHARED_MEMORY: Final = "1g"
KIT_PYTHON: Final = "/opt/samebits/bin/python"
KIT_LINK: Final = "/opt/kit/link"
"""Holds a link to the kit and nothing else, for a stack that must not see the kit's other packages."""

STACK_PYTHON: Final = "/opt/stack/bin/python"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What one run's containers share: image, run folder, model cache, and what they know of themselves."""

    row: Row
    image: RunningImage
    run: Path
    """The run's folder, the one thing that must be writable."""
    folder: Path
    """``.images``."""
    parent_outside: bool = False
    """Whether a parent out here and workers inside write the same folders; then they must be the same user."""

    @property
    def cache(self) -> Path:
        """Weights, made once for each user; each file's digest is checked before it is used."""
        return (self.folder / "cache" / self.user.partition(":")[0]).absolute()

    @property
    def known(self) -> Path:
        """What :func:`samebits.pins.image.here` reads."""
        return (self.folder / "started" / self.image.record.image.removeprefix("sha256:")).absolute()

    def make(self) -> None:
        """Make the folders; where the caller is root they are given to whoever writes them."""
        uid, gid = (int(part) for part in self.user.split(":"))
        for folder in (self.run, self.cache):
            folder.mkdir(parents=True, exist_ok=True)
            if os.getuid() == 0:
                os.chown(folder, uid, gid)
        self.known.mkdir(parents=True, exist_ok=True)
        row_id = self.image.record.row
        write_atomic(self.known / RECORD, record_path(row_id, self.folder).read_bytes())
        write_atomic(self.known / MANIFEST, manifest_path(row_id, self.folder).read_bytes())

    @property
    def user(self) -> str:
        """``uid:gid`` inside.  Even where it is root's, it has no capability, no network and a read-only system."""
        if os.getuid() == 0 and not self.parent_outside:
            return f"{USER}:{USER}"
        return f"{os.getuid()}:{os.getgid()}"

    def mounts(self, extra: Mapping[Path, str]) -> list[tuple[Path, str, bool]]:
        """Folder or file here, path inside, and whether it is read-only; ``extra`` are read-only files."""
        run = self.run.absolute()
        return [
            (run, str(run), False),
            (self.cache, str(self.cache), False),
            (self.known, str(PLACE), True),
            *((source.absolute(), target, True) for source, target in extra.items()),
        ]

    @property
    def variables(self) -> dict[str, str]:
        """What a process inside needs to know of the place."""
        return {"HOME": SCRATCH, "XDG_CACHE_HOME": str(self.cache), "USER": "samebits", "LOGNAME": "samebits"}

    def options(self, extra: Mapping[Path, str]) -> dict[str, Any]:
        """For ``client.containers.create``."""
        return {
            "network_mode": "none",
            "read_only": True,
            "tmpfs": {SCRATCH: SCRATCH_OPTIONS},
            "shm_size": SHARED_MEMORY,
            "user": self.user,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "init": True,
            "environment": self.variables,
            "labels": {"samebits.run": self.run.name},
            "mounts": [
                Mount(target=target, source=str(source), type="bind", read_only=read_only)
                for source, target, read_only in self.mounts(extra)
            ],
            "device_requests": [DeviceRequest(count=-1, capabilities=[["gpu"]])] if self.has_gpus else None,
        }

    def arguments(self) -> list[str]:
        """The same for the command line ``docker run``."""
        said = ["--network=none", "--read-only", f"--tmpfs={SCRATCH}:{SCRATCH_OPTIONS}", f"--shm-size={SHARED_MEMORY}"]
        said += [f"--user={self.user}", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--init"]
        said += [f"--env={name}={value}" for name, value in self.variables.items()]
        said.append(f"--label=samebits.run={self.run.name}")
        for source, target, read_only in self.mounts({}):
            said.append(f"--mount=type=bind,source={source},target={target}" + (",readonly" if read_only else ""))
        return said + (["--gpus=all"] if self.has_gpus else [])

    @property
    def has_gpus(self) -> bool:
        """Whether the row's containers are given all GPUs."""
        return self.row.hardware.accelerator != "none"
