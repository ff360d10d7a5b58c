"""Whole sequences packed one after another into a single forward (``varlen``), nothing cached before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor


class PackedBatch:
    """``samebits.ops.opset.Batch`` over the packed tensors of one forward; differentiable.

    The engine keeps keys and values in pages over many forwards; here they are the packed rows themselves, spread
    into the fixed layout [B, L, …] for attention and forgotten with the batch.
    """

    def __init__(self, sequences: Sequence[Sequence[int]], max_model_len: int) -> None:
        """``sequences`` are token ids, each of 1 to ``max_model_len`` tokens; ``max_model_len`` is L."""
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        self._shape = (len(sequences), max_model_len)
        self._rows: dict[tuple[int, str], Tensor] = {}
        self.starts = list(accumulate((len(sequence) for sequence in sequences), initial=0))
        self.offsets = [0] * len(sequences)
        self.token_ids = torch.tensor([token for sequence in sequences for token in sequence])
        sequence_of_row = torch.repeat_interleave(torch.arange(len(sequences)), lengths)
        self.positions = torch.arange(self.starts[-1]) - torch.tensor(self.starts)[sequence_of_row]
        self._slots = sequence_of_row * max_model_len + self.positions

    def store(self, layer: int, name: str, rows: Tensor) -> None:
        """Keep ``rows`` [T, …] of cache ``name`` of ``layer``; once per batch, since a forward is whole."""
        if (layer, name) in self._rows:
            raise ValueError(f"cache {name!r} of layer {layer} is already stored in this packed forward")
        self._rows[layer, name] = rows

    def gather(self, layer: int, name: str) -> Tensor:
        """[B, L, …], zeros after each sequence's end; the gradient goes back to the stored rows."""
        rows = self._rows[layer, name]
        count, slots = self._shape
        spread = rows.new_zeros((count * slots, *rows.shape[1:])).index_copy_(0, self._slots, rows)
        return spread.view(count, slots, *rows.shape[1:])
