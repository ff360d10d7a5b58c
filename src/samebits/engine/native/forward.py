"""One forward over the pages: the step of a rollout and the prefill of a score are both made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor

from samebits import bits
from samebits.bits import Bits
from samebits.engine.native.cache import PagedCache
from samebits.engine.native.paged_batch import PagedBatch, Span
from samebits.models.family import Decoder, Weights
from samebits.ops import OpSet
from samebits.ops.observer import Record
from samebits.ops.tracing import Tracing

HEAD_ROWS: Final = 128
"""Rows of logits held at once: the vocabulary is wide."""


class Watch(NamedTuple):
    """Where a forward's decisions are recorded, and the key of each of its spans there."""

    record: Record
    keys: Sequence[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Forward:
    """Everything that a forward needs besides its tokens."""

    decoder: Decoder
    ops: OpSet
    weights: Weights
    cache: PagedCache
    key_slots: int
    tracing: Tracing | None = None
    """Who digests rows on the way, if anybody."""

    def hidden(self, spans: Sequence[Span], keys: Sequence[int], watch: Watch | None = None) -> Tensor:
        """Final hidden states of the spans' tokens, packed: [T, hidden_size]; their cache rows go into the pages.

        ``keys`` are the spans' places in the call that asked for them.
        """
        batch = PagedBatch(self.cache, spans, key_slots=self.key_slots)
        if watch is not None:
            batch.observer = watch.record.of(watch.keys, batch.starts, batch.offsets)
        ops = self.ops if self.tracing is None else self.tracing.forward(self.ops, self.weights, batch, keys)
        return self.decoder.hidden_states(ops, self.weights, batch)

    def logits(self, hidden: Tensor, rows: Sequence[int]) -> Tensor:
        """The head on ``rows`` of ``hidden`` only: [R, V]."""
        chosen = hidden.index_select(0, torch.tensor(rows))
        return self.decoder.logits(self._head(rows), self.weights, chosen)

    def patterns(self, logits: Tensor, rows: Sequence[int], token_ids: Sequence[int]) -> Bits:
        """Raw logprobs of one token per row of :meth:`logits`, as bit patterns [R]."""
        return bits.from_float32(self._head(rows).token_logprobs(logits, torch.tensor(token_ids)).numpy())

    def score(self, hidden: Tensor, rows: Sequence[int], token_ids: Sequence[int]) -> list[Bits]:
        """``patterns`` of many rows, :data:`HEAD_ROWS` at a time."""
        found = []
        for at in range(0, len(rows), HEAD_ROWS):
            some = rows[at : at + HEAD_ROWS]
            found.append(self.patterns(self.logits(hidden, some), some, token_ids[at : at + HEAD_ROWS]))
        return found

    def _head(self, rows: Sequence[int]) -> OpSet:
        return self.ops if self.tracing is None else self.tracing.head(rows)
