"""The engine's own copy of the weights, and how a new version gets into it (refit)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from samebits.engine.protocol import Refitted
from samebits.errors import InputError
from samebits.integrity import digests
from samebits.models.family import Decoder
from samebits.models.folder import check_weights, config_dtype, read_weights


class EngineWeights:
    """Parameters in storage that lasts as long as the engine; a refit writes into it, as engines do on a GPU."""

    def __init__(self, decoder: Decoder, tensors: Mapping[str, Tensor]) -> None:
        self._decoder = decoder
        self.tensors = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
        self.dtype = config_dtype(decoder.config)
        """Of activations, and of every tensor whose form the family does not fix."""
        self.version = 0
        self.is_used = False
        """Whether a logprob was computed under this version: from then on the version means these weights."""

    @property
    def parameters(self) -> int:
        """How many numbers the model has; a quantised one's scales are not counted."""
        return sum(math.prod(shape) for shape in self._decoder.parameter_shapes().values())

    def require(self, version: int) -> None:
        """That ``version`` is the one loaded; from here on it counts as used.

        Raises:
            InputError: it is not: tokens under one version would be called another's (rule 5).
        """
        if version != self.version:
            raise InputError(
                "version",
                found=version,
                accepted=f"{self.version}, the weight version in the engine",
                next_step="Refit first, or ask for the version that is loaded.",
            )
        self.is_used = True

    def refit(self, path: Path, version: int) -> Refitted:
        """Load the tensors of a safetensors file as ``version``; digests before and after they are copied in.

        The file is checked whole before the first parameter changes.

        Raises:
            InputError: a version that goes back or is in use, an unreadable file, or tensors that are not this model's.
        """
        began = time.perf_counter()
        self._check_version(version)
        arriving = read_weights(path)
        check_weights(self._decoder, arriving, self.dtype, source=path.name)
        arrived = digests(arriving)
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(arriving[name])
        self.version, self.is_used = version, False
        loaded = digests(self.tensors)
        return Refitted(version=version, arrived=arrived, loaded=loaded, seconds=time.perf_counter() - began)

    def _check_version(self, version: int) -> None:
        if version < self.version or (version == self.version and self.is_used):
            raise InputError(
                "refit.version",
                found=version,
                accepted=f"more than {self.version}, which is in use" if self.is_used else f"{self.version} or more",
                next_step="Give every policy its own version, counting up.",
            )
