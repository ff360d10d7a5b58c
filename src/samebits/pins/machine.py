"""The machine at hand, as far as a row asks for it."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from samebits import environment


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What :func:`look` found; tests make their own."""

    description: Mapping[str, str | list[str]]
    """As a certificate records it, see :func:`samebits.environment.describe`."""
    arch: str
    python: str
    cores: int
    memory_gib: int
    disk_gib: int
    """Free where the working directory is."""
    flags: frozenset[str]
    gpus: tuple[str, ...]
    """Lines such as ``4 × NVIDIA H200``; empty without an NVIDIA GPU or its driver."""


def look() -> Machine:
    """The machine at hand, now."""
    description = environment.describe()
    return Machine(
        description=description,
        arch=platform.machine(),
        python=platform.python_version(),
        cores=_number(description.get("cpuCount")),
        memory_gib=_number(description.get("memoryGiB")),
        disk_gib=shutil.disk_usage(Path.cwd()).free >> 30,
        flags=frozenset(description.get("cpuFlags", ())),
        gpus=tuple(description.get("gpus", ())),
    )


def _number(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isdigit() else 0
