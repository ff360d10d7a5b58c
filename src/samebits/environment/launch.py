"""How the processes of a run are started: with which interpreter, in which environment.

A row may keep its workers in a stack of their own (vLLM never lives in the kit's environment).  There the kit itself
is found through a folder that holds nothing but a link to the package: its other requirements must not shadow the
stack's.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import samebits
from samebits.environment.variables import worker_environment

PACKAGE: Final = Path(samebits.__file__).parent


class Launcher(Protocol):
    """Turns a module of the kit into a process' command line and environment."""

    def command(self, module: str, *arguments: str) -> list[str]:
        """What runs ``python -m module arguments…`` on the row's stack."""

    def environment(self, threads: int) -> Mapping[str, str]:
        """All variables that the process gets."""


@dataclass(frozen=True, slots=True)
class OwnEnvironment:
    """The kit's own interpreter and packages."""

    def command(self, module: str, *arguments: str) -> list[str]:
        """See :class:`Launcher`."""
        return [sys.executable, "-m", module, *arguments]

    def environment(self, threads: int) -> Mapping[str, str]:
        """See :class:`Launcher`."""
        return worker_environment(threads)


@dataclass(frozen=True, slots=True)
class StackEnvironment:
    """Another interpreter, with the row's stack installed; ``link_folder`` receives the link to the kit."""

    python: Path
    link_folder: Path

    def command(self, module: str, *arguments: str) -> list[str]:
        """See :class:`Launcher`."""
        return [str(self.python), "-m", module, *arguments]

    def environment(self, threads: int) -> Mapping[str, str]:
        """See :class:`Launcher`."""
        self.link_folder.mkdir(parents=True, exist_ok=True)
        link = self.link_folder / PACKAGE.name
        if not link.is_symlink() or link.resolve() != PACKAGE:
            link.unlink(missing_ok=True)
            link.symlink_to(PACKAGE)
        environment = worker_environment(threads, {"PYTHONPATH": str(self.link_folder)})
        environment.pop("VIRTUAL_ENV", None)
        return environment
