"""One forward's packed tokens over the pages: what a model family sees of this engine (``ops.opset.Batch``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from samebits.engine.native.cache import PagedCache, Stored
from samebits.engine.native.pages import ZERO_PAGE
from samebits.engine.native.tables import Group
from samebits.ops.observer import Observer
from samebits.ops.opset import T


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Consecutive tokens of one sequence, the first at position ``start``, and the pages of that sequence."""

    token_ids: Sequence[int]
    start: int
    tables: Sequence[Sequence[int]]
    """Pages, one table for each of the cache's groups."""


class PagedBatch:
    """A :class:`samebits.ops.opset.Batch` over pages.  Slots and block tables are computed once for all layers."""

    def __init__(
        self, cache: PagedCache, spans: Sequence[Span], *, key_slots: int, observer: Observer | None = None
    ) -> None:
        self._cache = cache
        self._key_slots = key_slots
        self._spans = spans
        self.observer = observer
        self.starts = [0]
        self.offsets = [span.start for span in spans]
        token_ids: list[int] = []
        positions: list[int] = []
        for span in spans:
            token_ids += span.token_ids
            positions += range(span.start, span.start + len(span.token_ids))
            self.starts.append(len(token_ids))
        self.token_ids = torch.tensor(token_ids)
        self.positions = torch.tensor(positions)
        lengths = torch.tensor([len(span.token_ids) for span in spans])
        self.sequences = torch.repeat_interleave(torch.arange(len(spans)), lengths)
        self._tables = [self._table(at, group) for at, group in enumerate(cache.groups)]
        self._new_slots = [self._slots_of_new_rows(at, group) for at, group in enumerate(cache.groups)]
        # Held with what was asked: an index is recognised by being the same tensor, so it must outlive this entry.
        self._selected: dict[tuple[int, int, int], tuple[Tensor, Tensor, Tensor]] = {}

    def store(self, layer: int, name: str, rows: Tensor, *, stride: int = 1) -> None:
        """Write ``rows`` into their sequences' pages: [T, *row shape], or those that complete a stride."""
        stored = self._cache[layer, name]
        if stride != self._cache.groups[stored.group].stride:
            raise ValueError(f"cache {name!r} of layer {layer} was declared with another stride than {stride}")
        lies = rows if stored.format is None else stored.format.encode(rows)
        stored.by_slot.index_copy_(0, self._new_slots[stored.group], lies)

    def gather(self, layer: int, name: str) -> Tensor:
        """[B, L, *row shape], L the fixed number of key slots over the stride; zeros after each sequence's end."""
        stored = self._cache[layer, name]
        table, rows = self._tables[stored.group], self._key_slots // self._cache.groups[stored.group].stride
        pages = stored.by_page.index_select(0, table.flatten())
        slots = pages.view(len(self.offsets), -1, *stored.by_slot.shape[1:])[:, :rows].contiguous()
        return _read(stored, slots.flatten(0, 1)).view(len(self.offsets), rows, *stored.row_shape)

    def packed(self, layer: int, name: str) -> Tensor:
        """[N, *row shape]: each sequence's rows so far, one sequence after the other."""
        ends = [offset + len(span.token_ids) for offset, span in zip(self.offsets, self._spans, strict=True)]
        return torch.cat([rows[:end] for rows, end in zip(self.gather(layer, name), ends, strict=True)])

    def run_layer(self, compute: Callable[..., T], *arguments: Tensor | None) -> T:
        """At once: a rollout has no backward."""
        return compute(*arguments)

    def select(self, layer: int, name: str, sequences: Tensor, rows: Tensor) -> Tensor:
        """[N, S, *row shape]: single rows, zero where −1."""
        stored = self._cache[layer, name]
        slots = self._slots(stored.group, sequences, rows)
        return _read(stored, stored.by_slot.index_select(0, slots)).view(*rows.shape, *stored.row_shape)

    def _table(self, at: int, group: Group) -> Tensor:
        """int64 [B, pages of L tokens], filled up with the zero page."""
        width = group.pages(self._key_slots)
        tables = [[*span.tables[at], *[ZERO_PAGE] * (width - len(span.tables[at]))] for span in self._spans]
        return torch.tensor(tables, dtype=torch.int64).view(len(tables), width)

    def _slots_of_new_rows(self, at: int, group: Group) -> Tensor:
        positions, sequences = self.positions, self.sequences
        if group.stride > 1:
            ends = ((positions + 1) % group.stride == 0).nonzero().squeeze(1)
            positions, sequences = torch.div(positions[ends], group.stride, rounding_mode="floor"), sequences[ends]
        return self._slots_in(at, sequences[:, None], positions[:, None]).flatten()

    def _slots(self, at: int, sequences: Tensor, rows: Tensor) -> Tensor:
        """Flat slots of rows [N, S]; layers that ask alike share the answer."""
        key = (at, id(sequences), id(rows))
        if key not in self._selected:
            slots = self._slots_in(at, sequences[:, None], rows.clamp(min=0)).masked_fill_(rows < 0, ZERO_PAGE)
            self._selected[key] = (slots.flatten(), sequences, rows)
        return self._selected[key][0]

    def _slots_in(self, at: int, sequences: Tensor, rows: Tensor) -> Tensor:
        size = self._cache.groups[at].rows
        page = torch.div(rows, size, rounding_mode="floor")
        width = self._tables[at].shape[1]
        pages = self._tables[at].flatten().index_select(0, (sequences * width + page).flatten()).view(page.shape)
        return pages * size + rows % size


def _read(stored: Stored, rows: Tensor) -> Tensor:
    return rows if stored.format is None else stored.format.decode(rows)
