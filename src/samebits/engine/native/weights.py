"""The engine's own copy of the weights, and how a new version gets into it (refit)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from samebits.engine.protocol import Refitted
from samebits.engine.versioned import VersionedWeights
from samebits.integrity import digests
from samebits.models.family import Decoder
from samebits.models.folder import check_weights, config_dtype, read_weights


class EngineWeights(VersionedWeights):
    """Parameters in storage that lasts as long as the engine; a refit writes into it, as engines do on a GPU."""

    def __init__(self, decoder: Decoder, tensors: Mapping[str, Tensor]) -> None:
        super().__init__(decoder, config_dtype(decoder.config))
        self.tensors = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}

    def refit(self, path: Path, version: int, *, verify: bool) -> Refitted:
        """Load the tensors of a safetensors file as ``version``; digests before and after the copy, if ``verify``.

        The file is checked whole before the first parameter changes.

        Raises:
            InputError: a version that goes back or is in use, an unreadable file, or tensors that are not this model's.
        """
        began = time.perf_counter()
        self._check_next(version)
        arriving = read_weights(path)
        check_weights(self._decoder, arriving, self.dtype, source=path.name)
        arrived = digests(arriving) if verify else {}
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(arriving[name])
        self.version, self.is_used = version, False
        loaded = digests(self.tensors) if verify else {}
        return Refitted(version=version, arrived=arrived, loaded=loaded, seconds=time.perf_counter() - began)
