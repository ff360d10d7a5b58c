"""Packages of the ``run`` extra, imported where they are used: whoever only reads a certificate does not have them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from samebits.errors import MachineError
from samebits.pins.lock import WITHOUT_WHEEL


def require(module: str, package: str) -> Any:
    """The module ``module`` of the distribution ``package``.

    Raises:
        MachineError: it is not installed, or does not import.
    """
    if package == "reasoning-gym":
        stand_in(WITHOUT_WHEEL)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MachineError(
            f"package {package}",
            found=str(error),
            accepted="an installed package",
            next_step="Install the run requirements: pip install 'samebits[run]'.",
        ) from error


def stand_in(modules: Iterable[str]) -> None:
    """An empty module in place of each of ``modules`` that is not installed.

    reasoning-gym imports the requirements of all its tasks at once; some have no wheel, one needs a compiler, and no
    recipe uses the tasks that they are for.  Such a task would fail on the empty module, not compute something else.
    """
    for name in modules:
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules[name] = ModuleType(name, "Stands in for a module that is not installed.")
