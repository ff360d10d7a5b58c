"""One forward's packed tokens over the pages: what a model family sees of this engine (``ops.opset.Batch``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from samebits.engine.native.cache import PagedCache
from samebits.engine.native.pages import ZERO_PAGE


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Consecutive tokens of one sequence, the first at position ``start``, and all pages of that sequence."""

    token_ids: Sequence[int]
    start: int
    pages: Sequence[int]


class PagedBatch:
    """A :class:`samebits.ops.opset.Batch` over pages.  Slots and block tables are computed once for all layers."""

    def __init__(self, cache: PagedCache, spans: Sequence[Span], *, key_slots: int) -> None:
        size = cache.page_size
        self._cache = cache
        self._key_slots = key_slots
        width = -(-key_slots // size)
        self.starts = [0]
        self.offsets = [span.start for span in spans]
        token_ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        table: list[int] = []
        for span in spans:
            end = span.start + len(span.token_ids)
            token_ids += span.token_ids
            positions += range(span.start, end)
            slots += [span.pages[at // size] * size + at % size for at in range(span.start, end)]
            table += span.pages
            table += [ZERO_PAGE] * (width - len(span.pages))
            self.starts.append(len(token_ids))
        self.token_ids = torch.tensor(token_ids)
        self.positions = torch.tensor(positions)
        self._slots = torch.tensor(slots)
        self._table = torch.tensor(table)

    def store(self, layer: int, name: str, rows: Tensor) -> None:
        """Write ``rows`` [T, *row shape] into their sequences' pages."""
        self._cache.by_slot(layer, name).index_copy_(0, self._slots, rows)

    def gather(self, layer: int, name: str) -> Tensor:
        """[B, L, *row shape], L the fixed number of key slots; zeros after each sequence's end."""
        row_shape = self._cache.by_slot(layer, name).shape[1:]
        pages = self._cache.by_page(layer, name).index_select(0, self._table)
        return pages.view(len(self.offsets), -1, *row_shape)[:, : self._key_slots].contiguous()
