"""The user's Docker: reaching it, and its complaints in the kit's words."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import docker
from docker.errors import APIError, DockerException

from samebits.errors import MachineError

ARCHITECTURES: Final[Mapping[str, str]] = {"x86_64": "amd64", "aarch64": "arm64"}
"""Docker's word for what a row and ``uname`` call an architecture."""

_INTERFACE: Final = "1.44"
"""Of Docker's interface: known to engines from 25 on."""

_DISK_FULL: Final = re.compile(r"no space left on device|ENOSPC|disk quota exceeded", re.IGNORECASE)
_LAST_LINES: Final = 5


def connect() -> docker.DockerClient:
    """A client of the engine that ``DOCKER_HOST`` or the current Docker context names.

    Raises:
        MachineError: none answers.
    """
    client = None
    try:
        # With a version of the interface named, nothing is asked before ping(), and what fails can be closed.
        client = docker.from_env(version=_INTERFACE)
        client.ping()
    except (DockerException, OSError) as error:
        if client is not None:
            client.close()
        raise MachineError(
            "Docker engine",
            found=f"none that answers ({_short(str(error))})",
            accepted="a running Docker engine, 25 or newer",
            next_step="Start it, or set DOCKER_HOST. Nothing was run, so nothing is counted as passed.",
        ) from None
    return client


def architecture(client: docker.DockerClient) -> str:
    """The engine's, as rows spell it."""
    said = str(client.info().get("Architecture", ""))
    return next((row for row, name in ARCHITECTURES.items() if said in {row, name}), said)


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Around calls of the client: what the engine complains about becomes a :class:`MachineError`.

    Raises:
        MachineError: the engine refused or went away.
    """
    try:
        yield
    except (APIError, DockerException, OSError) as error:
        raise complaint(what, str(getattr(error, "explanation", None) or error)) from None


def complaint(what: str, words: str) -> MachineError:
    """The error for an engine or a tool that says ``words`` about ``what``."""
    if _DISK_FULL.search(words):
        return MachineError(
            what,
            found="a full disk",
            accepted="room for the image: its row says how much",
            next_step="Free space where Docker keeps its data (docker system df), then run again.",
        )
    return MachineError(
        what,
        found=_short(words) or "a failure without words",
        accepted="a step that succeeds",
        next_step="Mend what it says, then run again.",
    )


def run(
    what: str,
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> None:
    """Run a tool; everything it prints goes to the end of ``log``.

    Raises:
        MachineError: it is not installed, or fails; the last lines of the log say why.
    """
    if shutil.which(command[0]) is None:
        raise MachineError(
            what,
            found=f"no program {command[0]!r}",
            accepted="it on the PATH",
            next_step="Install it; the session nox -s images does for all but Docker itself.",
        )
    log.parent.mkdir(parents=True, exist_ok=True)
    began = log.stat().st_size if log.exists() else 0
    with log.open("ab") as stream:
        finished = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
            cwd=folder,
            env=None if environment is None else {**os.environ, **environment},
        )
    if finished.returncode:
        with log.open("rb") as stream:
            stream.seek(began)
            lines = stream.read().decode(errors="replace").strip().splitlines()
        raise complaint(what, "\n".join(_telling(lines)))


def _telling(lines: Sequence[str]) -> list[str]:
    """BuildKit repeats the Dockerfile after an error: the lines that say ERROR, or else the last ones."""
    errors = [line for line in lines if "ERROR" in line or "error:" in line.lower() or _DISK_FULL.search(line)]
    return (errors or list(lines))[-_LAST_LINES:]


def _short(words: str) -> str:
    return " ".join(words.split())[:600]
