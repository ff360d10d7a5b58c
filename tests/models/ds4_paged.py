"""Sequences computed in any chunks over the engine's pages, alone or in a crowd."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from samebits.actor.packed_batch import PackedBatch
from samebits.engine.native.cache import PagedCache
from samebits.engine.native.paged_batch import PagedBatch, Span
from samebits.engine.native.pages import PageAllocator
from samebits.engine.native.tables import Tables
from samebits.models.ds4 import DeepSeekV4
from samebits.ops import open_op_set

SLOTS = 320
PAGES = 4000


def packed(decoder: DeepSeekV4, weights, sequences: Sequence[Sequence[int]], *, ops="native", observer=None):
    """Hidden states of each sequence, all in one forward."""
    batch = PackedBatch(sequences, SLOTS, observer=observer)
    with torch.no_grad():
        hidden = decoder.hidden_states(open_op_set(ops), weights, batch)
    return list(torch.split(hidden, [len(one) for one in sequences]))


def paged(
    decoder: DeepSeekV4,
    weights,
    sequences: Sequence[Sequence[int]],
    steps: Sequence[dict[int, int]],
    *,
    ops="native",
    record=None,
    preempt: dict[int, int] | None = None,
) -> list[Tensor]:
    """The same over pages: each step computes so many further tokens of so many sequences.

    ``preempt`` throws a sequence out after the step of that number; later steps then begin with its first token.
    """
    dtype = weights["model.embed_tokens.weight"].dtype
    cache = PagedCache(decoder, pages=PAGES, page_size=16, dtype=dtype)
    allocator = PageAllocator(count=PAGES, size=16)
    tables = [Tables(cache.groups, allocator, owner=index) for index in range(len(sequences))]
    computed = [0] * len(sequences)
    parts: list[list[Tensor]] = [[] for _ in sequences]
    for number, step in enumerate(steps):
        spans = []
        for index, count in step.items():
            tables[index].grow(computed[index] + count)
            token_ids = sequences[index][computed[index] : computed[index] + count]
            spans.append(Span(token_ids=token_ids, start=computed[index], tables=tables[index].tables))
        cache.zero(allocator.take_fresh())
        batch = PagedBatch(cache, spans, key_slots=SLOTS)
        if record is not None:
            batch.observer = record.of(list(step), batch.starts, batch.offsets)
        with torch.no_grad():
            hidden = decoder.hidden_states(open_op_set(ops), weights, batch)
        for (index, count), part in zip(step.items(), hidden.split(list(step.values())), strict=True):
            parts[index].append(part)
            computed[index] += count
            tables[index].trim(computed[index])
        if preempt and number in preempt:
            victim = preempt[number]
            tables[victim].give_back()
            computed[victim], parts[victim] = 0, []
    assert computed == [len(one) for one in sequences]
    return [torch.cat(part) if part else torch.empty(0) for part in parts]


def same_bits(left: Tensor, right: Tensor) -> bool:
    """−0 and 0 differ, NaN equals itself."""
    kind = torch.int16 if left.dtype == torch.bfloat16 else torch.int32
    return left.shape == right.shape and torch.equal(left.view(kind), right.view(kind))
