"""Whole sequences packed one after another into a single forward (``varlen``), nothing cached before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from samebits.ops.observer import Observer
from samebits.ops.sparse import with_zero_row


class PackedBatch:
    """``samebits.ops.opset.Batch`` over the packed tensors of one forward; differentiable.

    The engine keeps keys and values in pages over many forwards; here they are the packed rows themselves, spread
    into the fixed layout [B, L, …] for attention and forgotten with the batch.
    """

    def __init__(
        self, sequences: Sequence[Sequence[int]], max_model_len: int, *, observer: Observer | None = None
    ) -> None:
        """``sequences`` are token ids, each of 1 to ``max_model_len`` tokens; ``max_model_len`` is L."""
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        self._shape = (len(sequences), max_model_len)
        self._rows: dict[tuple[int, str], tuple[Tensor, int]] = {}
        self._lengths = lengths
        self.observer = observer
        self.starts = list(accumulate((len(sequence) for sequence in sequences), initial=0))
        self.offsets = [0] * len(sequences)
        self.token_ids = torch.tensor([token for sequence in sequences for token in sequence])
        self.sequences = torch.repeat_interleave(torch.arange(len(sequences)), lengths)
        self.positions = torch.arange(self.starts[-1]) - torch.tensor(self.starts)[self.sequences]

    def store(self, layer: int, name: str, rows: Tensor, *, stride: int = 1) -> None:
        """Keep ``rows`` [T, …] of cache ``name`` of ``layer``; once per batch, since a forward is whole."""
        if (layer, name) in self._rows:
            raise ValueError(f"cache {name!r} of layer {layer} is already stored in this packed forward")
        self._rows[layer, name] = rows, stride

    def gather(self, layer: int, name: str) -> Tensor:
        """[B, L, …], zeros after each sequence's end; the gradient goes back to the stored rows."""
        rows, stride = self._rows[layer, name]
        count, slots = self._shape[0], self._shape[1] // stride
        kept = self._lengths // stride
        sequence = torch.repeat_interleave(torch.arange(count), kept)
        places = torch.arange(len(rows)) + (slots * torch.arange(count) - (kept.cumsum(0) - kept))[sequence]
        spread = rows.new_zeros((count * slots, *rows.shape[1:])).index_copy_(0, places, rows)
        return spread.view(count, slots, *rows.shape[1:])

    def select(self, layer: int, name: str, sequences: Tensor, rows: Tensor) -> Tensor:
        """[N, S, …]: single rows, zero where −1; the gradient goes back to the stored rows."""
        stored, stride = self._rows[layer, name]
        kept = self._lengths // stride
        first = (kept.cumsum(0) - kept)[sequences, None]
        places = torch.where(rows < 0, len(stored), first + rows)
        chosen = with_zero_row(stored).index_select(0, places.flatten())
        return chosen.view(*rows.shape, *stored.shape[1:])
