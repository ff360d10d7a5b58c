"""Megatron-core itself: whether it is there, and the process group of one that it insists on."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Final

from torch import distributed
from torch._C._distributed_c10d import HashStore

from samebits.errors import MachineError

DISTRIBUTION: Final = "megatron-core"


def version() -> str:
    """What is installed, before anything of it is imported.

    Raises:
        MachineError: nothing.
    """
    try:
        return installed(DISTRIBUTION)
    except PackageNotFoundError:
        raise MachineError(
            DISTRIBUTION,
            found="not installed",
            accepted="the release that the row pins",
            next_step='Install the row\'s requirements (nox does), or choose actor.kind = "native".',
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Within, Megatron keeps to itself that Apex and Transformer Engine are not there, and what it will deprecate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def require() -> str:
    """Imports megatron.core and makes this process a world of one, if that was not done; returns the version.

    Raises:
        MachineError: it is not installed, or does not import; says in Megatron's words why.
    """
    found = version()
    try:
        with quiet():
            importlib.import_module("megatron.core.models.gpt")
            parallel = importlib.import_module("megatron.core.parallel_state")
    except ImportError as error:
        raise MachineError(
            f"{DISTRIBUTION} {found}",
            found=f"an import that fails: {error}",
            accepted="megatron.core imports",
            next_step="Install what it asks for; release 0.19 needs Triton even to import, 0.16.1 does not.",
        ) from error
    _world_of_one()
    if not parallel.model_parallel_is_initialized():
        parallel.initialize_model_parallel()
    return found


def _world_of_one() -> None:
    """Gloo and a store in memory: nothing listens, nothing is written, no other process can join."""
    if distributed.is_initialized():
        return
    # Gloo picks an interface even for one process, by looking the host's name up; the loopback needs no look-up.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
