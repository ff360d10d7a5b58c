"""The weight version of an engine's weights, whatever holds them: who may ask for it, and which may come next."""

from __future__ import annotations

import math

import torch

from samebits.errors import InputError
from samebits.models.family import Decoder


class VersionedWeights:
    """Base of an engine's weights.  A version that computed a logprob means these weights for good (rule 5)."""

    def __init__(self, decoder: Decoder, dtype: torch.dtype) -> None:
        self._decoder = decoder
        self.dtype = dtype
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

    def _check_next(self, version: int) -> None:
        """That ``version`` may follow.

        Raises:
            InputError: it goes back, or is the one in use.
        """
        if version < self.version or (version == self.version and self.is_used):
            raise InputError(
                "refit.version",
                found=version,
                accepted=f"more than {self.version}, which is in use" if self.is_used else f"{self.version} or more",
                next_step="Give every policy its own version, counting up.",
            )
