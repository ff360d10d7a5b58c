"""What a model family is: a forward written once over an op set, for engine and actor alike.

The engine and the actor share these lines and nothing else: batching, caches, packing and attention layout are each
side's own (``samebits.ops.opset.Batch``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from samebits.ops.opset import Batch, OpSet
from samebits.ops.rows import RowFormat

Weights = Mapping[str, Tensor]
"""Parameters by their Hugging Face names, for instance ``model.layers.0.input_layernorm.weight``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """One kind of cache row that each token of each layer leaves behind."""

    name: str
    row_shape: tuple[int, ...]
    dtype: torch.dtype | None = None
    """Of the rows as the family stores and reads them; by default that of the model."""
    stride: int = 1
    """One row for every so many tokens."""
    window: int | None = None
    """A query at position p reads rows of the last ``window`` tokens only, its own among them: the rest may go."""
    rows_per_page: int | None = None
    """By default the engine's own."""
    format: RowFormat | None = None
    """How rows lie in the pages, where not as they are.  Loses nothing: the family has rounded them before."""


class Deployed(NamedTuple):
    """One tensor of a model folder or a refit."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    parameter: str
    """The parameter that it is made of: its own name, but for the scales of a quantised one, and where another library
    holds the parameters under names of its own."""
    part: Callable[[Tensor], Tensor] | None = None
    """Takes it out of the parameter, where that holds several of them."""


class Decoder(Protocol):
    """A family at one configuration.  Stateless: weights, op set and batch come with each call."""

    config: Mapping[str, Any]
    layers: int
    vocab_size: int
    max_positions: int

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each parameter, in the order in which a seeded model draws them."""

    def deployed(self, dtype: torch.dtype) -> dict[str, Deployed]:
        """Every tensor that engines get, of a model whose activations are of ``dtype``."""

    def deploy(self, weights: Weights) -> dict[str, Tensor]:
        """Parameters in the dtype in which they train to what engines get of them."""

    def parameters(self, tensors: Weights) -> dict[str, Tensor]:
        """What engines get back to parameters: dequantised where it was quantised, else the same tensors."""

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


TRAINED = "@trained"
"""Ends the name under which a forward finds where the gradient of a quantised parameter goes."""


def plain_deployment(shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype) -> dict[str, Deployed]:
    """Of a family that deploys its parameters as they are, all in one dtype."""
    return {name: Deployed(shape, dtype, name) for name, shape in shapes.items()}


class OpenFolder(Protocol):
    """``models.open_folder``: a decoder and its weights from a prepared folder (config.json, model.safetensors)."""

    def __call__(self, folder: Path) -> tuple[Decoder, dict[str, Tensor]]: ...
