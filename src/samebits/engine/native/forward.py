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

    def hidden(self, spans: Sequence[Span], watch: Watch | None = None) -> Tensor:
        """Final hidden states of the spans' tokens, packed: [T, hidden_size]; their cache rows go into the pages."""
        batch = PagedBatch(self.cache, spans, key_slots=self.key_slots)
        if watch is not None:
            batch.observer = watch.record.of(watch.keys, batch.starts, batch.offsets)
        return self.decoder.hidden_states(self.ops, self.weights, batch)

    def logits(self, hidden: Tensor, rows: Sequence[int]) -> Tensor:
        """The head on ``rows`` of ``hidden`` only: [R, V]."""
        chosen = hidden.index_select(0, torch.tensor(rows))
        return self.decoder.logits(self.ops, self.weights, chosen)

    def patterns(self, logits: Tensor, token_ids: Sequence[int]) -> Bits:
        """Raw logprobs of one token per row, as bit patterns [R]."""
        return bits.from_float32(self.ops.token_logprobs(logits, torch.tensor(token_ids)).numpy())

    def score(self, hidden: Tensor, rows: Sequence[int], token_ids: Sequence[int]) -> list[Bits]:
        """``patterns`` of many rows, :data:`HEAD_ROWS` at a time."""
        return [
            self.patterns(self.logits(hidden, rows[at : at + HEAD_ROWS]), token_ids[at : at + HEAD_ROWS])
            for at in range(0, len(rows), HEAD_ROWS)
        ]
