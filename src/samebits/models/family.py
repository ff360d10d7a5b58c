"""What a model family is: a forward written once over an op set, for engine and actor alike.

The engine and the actor share these lines and nothing else: batching, caches, packing and attention layout are each
side's own (``samebits.ops.opset.Batch``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from samebits.ops.opset import Batch, OpSet

Weights = Mapping[str, Tensor]
"""Parameters by their Hugging Face names, for instance ``model.layers.0.input_layernorm.weight``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """One kind of cache row that each token of each layer leaves behind."""

    name: str
    row_shape: tuple[int, ...]


class Decoder(Protocol):
    """A family at one configuration.  Stateless: weights, op set and batch come with each call."""

    config: Mapping[str, Any]
    layers: int
    vocab_size: int
    max_positions: int

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each parameter, in the order in which a seeded model draws them."""

    def caches(self, layer: int) -> list[Cache]:
        """What ``layer`` stores per token."""

    def hidden_states(self, ops: OpSet, weights: Weights, batch: Batch) -> Tensor:
        """All layers and the final norm over the packed tokens: [T, hidden_size] in the weights' dtype."""

    def logits(self, ops: OpSet, weights: Weights, hidden: Tensor) -> Tensor:
        """The head on chosen rows: [R, hidden_size] to [R, V]."""

    def input_norm(self, layer: int) -> str:
        """Name of the parameter that rule 3's probe moves by one ulp."""

    def frozen(self) -> dict[str, str]:
        """Parameters without a gradient, each with the reason."""


class OpenFolder(Protocol):
    """``models.open_folder``: a decoder and its weights from a prepared folder (config.json, model.safetensors)."""

    def __call__(self, folder: Path) -> tuple[Decoder, dict[str, Tensor]]: ...
