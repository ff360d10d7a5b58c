"""Packages of the ``run`` extra, imported where they are used: whoever only reads a certificate does not have them."""

from __future__ import annotations

import importlib
from typing import Any

from samebits.errors import MachineError


def require(module: str, package: str) -> Any:
    """The module ``module`` of the distribution ``package``.

    Raises:
        MachineError: it is not installed, or does not import.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MachineError(
            f"package {package}",
            found=str(error),
            accepted="an installed package",
            next_step="Install the run requirements: pip install 'samebits[run]'.",
        ) from error
