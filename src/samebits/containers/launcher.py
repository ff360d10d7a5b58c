"""Workers in containers of their own: each engine, each actor, one container each, of the row's image.

The parent stays outside.  A worker is still a command: ``docker run …`` takes the place of ``python -m …``, and the
spool, a folder that both sides see, is all that connects them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from samebits.containers.place import KIT_LINK, KIT_PYTHON, STACK_PYTHON, Place
from samebits.environment import worker_environment
from samebits.environment.variables import is_allowed

REACHES_DOCKER: Final = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
"""What the client's own process needs beside what a worker gets; none of it goes into the container."""


@dataclass(frozen=True, slots=True)
class ContainerLauncher:
    """A :class:`samebits.environment.Launcher`; :meth:`close` removes what it started."""

    place: Place
    identifiers: Path
    """Folder for files that hold the ids of started containers."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def command(self, module: str, *arguments: str) -> list[str]:
        """``docker run`` of the image, by digest, with the row's interpreter."""
        self.identifiers.mkdir(parents=True, exist_ok=True)
        identifier = self.identifiers / f"{os.getpid()}-{next(self._numbers)}.cid"
        identifier.unlink(missing_ok=True)
        python = KIT_PYTHON if self.place.row.stack is None else STACK_PYTHON
        command = ["docker", "run", "--rm", f"--cidfile={identifier}", "--pull=never", *self.place.arguments()]
        # By name only: the values are those of the client's process, which environment() makes.
        command += [f"--env={name}" for name in sorted(worker_environment(1)) if not is_allowed(name)]
        if self.place.row.stack is not None:
            command.append(f"--env=PYTHONPATH={KIT_LINK}")
        return [*command, f"--entrypoint={python}", self.place.image.record.image, "-m", module, *arguments]

    def environment(self, threads: int) -> Mapping[str, str]:
        """Variables of the ``docker`` process; those that the kit sets go on into the container."""
        reaching = {name: os.environ[name] for name in REACHES_DOCKER if name in os.environ}
        return worker_environment(threads, reaching)

    def close(self) -> None:
        """Remove containers that are still there: whoever killed ``docker run`` has not killed its container."""
        for identifier in sorted(self.identifiers.glob(f"{os.getpid()}-*.cid")):
            container = identifier.read_text().strip()
            if container:
                subprocess.run(
                    ["docker", "rm", "--force", container], capture_output=True, check=False, stdin=subprocess.DEVNULL
                )
            identifier.unlink(missing_ok=True)


@contextlib.contextmanager
def launching(place: Place) -> Iterator[ContainerLauncher]:
    """A launcher whose containers are gone afterwards, however this ends.

    Containers of a parent that was killed outright end by themselves: their lifeline is the parent's heartbeat.
    """
    place.make()
    launcher = ContainerLauncher(place, place.folder / "containers")
    try:
        yield launcher
    finally:
        launcher.close()
