"""What is borrowed: the three operations whose reductions decide bits and which only the engine itself can repeat.

Everything else in vLLM's dense decoders is elementwise or a mean of rows, and its *native* implementations are plain
PyTorch (``formulas``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Primitives(Protocol):
    """An engine's operations, called as the engine calls them.  They record no gradients."""

    device: torch.device

    def describe(self) -> dict[str, str]:
        """What decides bits, for ``attention``, ``linear`` and ``log_softmax``."""

    def linear(self, x: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """One product by several weights, one above the other: [T, K] by [N₁, K], [N₂, K], … to [T, N₁ + N₂ + …]."""

    def attention(self, query: Tensor, keys: Tensor, values: Tensor, starts: Sequence[int]) -> Tensor:
        """Causal attention within whole sequences: [T, H, D], [T, G, D] twice to [T, H, D].

        Sequence ``b`` owns rows ``starts[b] : starts[b + 1]``.  Scale D^-1/2.
        """

    def token_logprobs(self, logits: Tensor, token_ids: Tensor) -> Tensor:
        """Raw logprobs of int64 [T] under logits [T, V] in the model's dtype: fp32 [T]."""
