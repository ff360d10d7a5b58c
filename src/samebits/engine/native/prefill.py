"""Scoring: the engine's own single prefill of whole sequences, to hold against its own rollout (rule 11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from samebits.bits import Bits
from samebits.engine.native.forward import Forward
from samebits.engine.native.paged_batch import Span
from samebits.engine.native.pages import PageAllocator
from samebits.engine.native.settings import Settings
from samebits.engine.native.tables import Tables
from samebits.engine.protocol import WholeSequence


def score(sequences: Sequence[WholeSequence], settings: Settings, forward: Forward) -> list[Bits]:
    """Patterns of the response tokens of each sequence, in order.

    Each sequence is computed whole in one forward, never in chunks; short ones share a forward.
    """
    pages = PageAllocator(count=settings.num_gpu_blocks, size=settings.block_size)
    found: list[Bits] = [np.empty(0, dtype=np.uint32) for _ in sequences]
    for pack in _packs(sequences, settings, forward):
        spans: list[Span] = []
        owned: list[Tables] = []
        rows: list[int] = []
        tokens: list[int] = []
        start = 0
        for index in pack:
            sequence = sequences[index]
            context = sequence.token_ids[:-1]  # nothing is predicted from the last token
            owned.append(Tables(forward.cache.groups, pages, owner=index))
            owned[-1].grow(len(context))
            spans.append(Span(token_ids=context, start=0, tables=owned[-1].tables))
            rows += range(start + sequence.prompt_length - 1, start + len(context))
            tokens += sequence.token_ids[sequence.prompt_length :]
            start += len(context)
        forward.cache.zero(pages.take_fresh())
        patterns = np.concatenate(forward.score(forward.hidden(spans, pack), rows, tokens))
        ends = np.cumsum([len(sequences[index].token_ids) - sequences[index].prompt_length for index in pack])
        for index, part in zip(pack, np.split(patterns, ends[:-1]), strict=True):
            found[index] = part
        for tables in owned:
            tables.give_back()
    return found


def _packs(sequences: Sequence[WholeSequence], settings: Settings, forward: Forward) -> Iterator[list[int]]:
    """Neighbours that fit into the pages together, without those that have no response."""
    most = max(settings.max_num_batched_tokens, settings.max_model_len)
    pack: list[int] = []
    tokens = needed = 0
    for index, sequence in enumerate(sequences):
        length = len(sequence.token_ids) - 1
        if length < sequence.prompt_length:
            continue
        own = sum(group.pages(length) for group in forward.cache.groups)
        if pack and (tokens + length > most or needed + own > settings.num_gpu_blocks):
            yield pack
            pack, tokens, needed = [], 0, 0
        pack.append(index)
        tokens, needed = tokens + length, needed + own
    if pack:
        yield pack
