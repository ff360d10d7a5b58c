"""A policy version as a file: the deployed weights, and digests of what was sent."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from samebits.actor.masters import Masters
from samebits.actor.protocol import Exported
from samebits.errors import InputError, MachineError
from samebits.hashing import sha256_file
from samebits.integrity import digests


@torch.no_grad()
def export(masters: Masters, path: Path, version: int, *, with_digests: bool = True) -> Exported:
    """Writes the deployed weights to ``path`` (safetensors) and returns the sender's digests, unless told not to.

    A reader sees the old file or the whole new one.  It is not flushed to the disk: the file feeds the next refit,
    and after a power cut the run is resumed from its evidence.

    Raises:
        InputError: the folder of ``path`` is not there.
        MachineError: the file could not be written; ``path`` is as before.
    """
    began = time.perf_counter()
    if not path.parent.is_dir():
        raise InputError(
            "path",
            found=f"{path}, in a folder that does not exist",
            accepted="a file name in an existing folder",
            next_step="Make the folder first.",
        )
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        save_file({name: weight.detach() for name, weight in masters.deployed.items()}, partial, {"format": "pt"})
        file_sha256 = sha256_file(partial) if with_digests else ""
        partial.replace(path)
    except Exception as error:  # safetensors raises its own, which derives from nothing narrower
        raise MachineError(
            str(path),
            found=str(error),
            accepted="room and permission to write the weights",
            next_step="Free space or choose another folder for the run.",
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    if not with_digests:
        seconds = time.perf_counter() - began
        return Exported(version=version, master={}, deployed={}, frozen={}, file_sha256="", seconds=seconds)
    return Exported(
        version=version,
        master=_digests(masters.by_deployed_name()),
        deployed=digests(masters.deployed),
        frozen={
            name: masters.frozen[masters.parameter_of(name)]
            for name in masters.deployed
            if masters.parameter_of(name) in masters.frozen
        },
        file_sha256=file_sha256,
        seconds=time.perf_counter() - began,
    )


def _digests(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Per name; a tensor under two names (a quantised one and its scale) is read once."""
    first: dict[int, str] = {}
    for name, tensor in tensors.items():
        first.setdefault(id(tensor), name)
    found = digests({name: tensors[name] for name in first.values()})
    return {name: found[first[id(tensor)]] for name, tensor in tensors.items()}
