"""Whole sequences packed one after another into a single forward (``varlen``), nothing cached before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from samebits.ops.observer import Observer
from samebits.ops.opset import T
from samebits.ops.sparse import with_zero_row


class PackedBatch:
    """``samebits.ops.opset.Batch`` over the packed tensors of one forward; differentiable.

    The engine keeps keys and values in pages over many forwards; here they are the packed rows themselves, spread
    into the fixed layout [B, L, …] for attention where an op set wants that, and forgotten with the batch.
    """

    def __init__(
        self,
        sequences: Sequence[Sequence[int]],
        max_model_len: int,
        *,
        observer: Observer | None = None,
        device: torch.device | None = None,
        checkpointing: bool = False,
    ) -> None:
        """``sequences`` are token ids, each of 1 to ``max_model_len`` tokens; ``max_model_len`` is L.

        With ``checkpointing`` a layer keeps its input alone, and is computed again in the backward (Chen et al.,
        arXiv:1604.06174): by the same calls at the same shapes, so that its bits are the same.
        """
        lengths = torch.tensor([len(sequence) for sequence in sequences], device=device)
        self._shape = (len(sequences), max_model_len)
        self._rows: dict[tuple[int, str], tuple[Tensor, int]] = {}
        self._lengths = lengths
        self._checkpointing = checkpointing
        self._device = device
        self.observer = observer
        self.starts = list(accumulate((len(sequence) for sequence in sequences), initial=0))
        self.offsets = [0] * len(sequences)
        self.token_ids = torch.tensor([token for sequence in sequences for token in sequence], device=device)
        self.sequences = torch.repeat_interleave(torch.arange(len(sequences), device=device), lengths)
        self.positions = self._arange(self.starts[-1]) - torch.tensor(self.starts, device=device)[self.sequences]

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
        sequence = torch.repeat_interleave(self._arange(count), kept)
        places = self._arange(len(rows)) + (slots * self._arange(count) - (kept.cumsum(0) - kept))[sequence]
        spread = rows.new_zeros((count * slots, *rows.shape[1:])).index_copy_(0, places, rows)
        return spread.view(count, slots, *rows.shape[1:])

    def packed(self, layer: int, name: str) -> Tensor:
        """[T, …]: the rows as they were stored."""
        return self._rows[layer, name][0]

    def select(self, layer: int, name: str, sequences: Tensor, rows: Tensor) -> Tensor:
        """[N, S, …]: single rows, zero where −1; the gradient goes back to the stored rows."""
        stored, stride = self._rows[layer, name]
        kept = self._lengths // stride
        first = (kept.cumsum(0) - kept)[sequences, None]
        places = torch.where(rows < 0, len(stored), first + rows)
        chosen = with_zero_row(stored).index_select(0, places.flatten())
        return chosen.view(*rows.shape, *stored.shape[1:])

    def run_layer(self, compute: Callable[..., T], *arguments: Tensor | None) -> T:
        """``compute(*arguments)``; with checkpointing, its activations and cache rows are dropped afterwards."""
        if not (self._checkpointing and torch.is_grad_enabled()):
            return compute(*arguments)

        def forgetting(*arguments: Tensor | None) -> T:
            try:
                return compute(*arguments)
            finally:  # the second computation is cut short by an exception as soon as it has what the backward needs
                self._rows.clear()

        # Nothing is drawn at random here.
        result = checkpoint(forgetting, *arguments, use_reentrant=False, preserve_rng_state=False)
        return cast("T", result)

    def _arange(self, end: int) -> Tensor:
        return torch.arange(end, device=self._device)
