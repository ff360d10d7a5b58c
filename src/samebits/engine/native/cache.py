"""The tensors behind the pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from samebits.engine.native.tables import Group
from samebits.models.family import Cache, Decoder
from samebits.ops.rows import RowFormat


@dataclass(frozen=True, slots=True)
class Stored:
    """One cache of one layer."""

    by_page: Tensor
    """[1 + pages, page size * row]: a page's rows end to end."""
    by_slot: Tensor
    """[slots, *row]: slot ``page * rows per page + offset``."""
    row_shape: tuple[int, ...]
    """Of a row as the family sees it."""
    format: RowFormat | None
    group: int
    """Which of the cache's groups it belongs to."""


class PagedCache:
    """Storage for every cache row that ``decoder`` leaves behind, in pages that all layers share.

    Caches of one name, row and group are one tensor [layers, 1 + pages, rows per page, *row], so that a page is
    zeroed in all layers by one call.  A page number means the same page in every tensor; its group's table holds it.
    """

    def __init__(self, decoder: Decoder, *, pages: int, page_size: int, dtype: torch.dtype) -> None:
        self._caches: dict[tuple[int, str], Stored] = {}
        self._storage: list[Tensor] = []
        kinds: dict[Cache, list[int]] = {}
        for layer in range(decoder.layers):
            for cache in decoder.caches(layer):
                kinds.setdefault(cache, []).append(layer)
        of_kind = {cache: group_of(cache, page_size) for cache in kinds}
        self.groups = list(dict.fromkeys(of_kind.values()))
        for cache, layers in kinds.items():
            group = of_kind[cache]
            form, row = cache.format, cache.row_shape
            lies = (form.bytes,) if form else row
            kept = torch.uint8 if form else cache.dtype or dtype
            storage = torch.zeros(len(layers), 1 + pages, group.rows, *lies, dtype=kept)
            self._storage.append(storage)
            for place, layer in enumerate(layers):
                self._caches[layer, cache.name] = Stored(
                    by_page=storage[place].view(1 + pages, -1),
                    by_slot=storage[place].view((1 + pages) * group.rows, *lies),
                    row_shape=row,
                    format=form,
                    group=self.groups.index(group),
                )

    def zero(self, pages: Sequence[int]) -> None:
        """Zero ``pages`` in all layers."""
        if pages:
            index = torch.tensor(pages)
            for storage in self._storage:
                storage.index_fill_(1, index, 0)

    def __getitem__(self, place: tuple[int, str]) -> Stored:
        """The cache of a layer by its name."""
        return self._caches[place]


def group_of(cache: Cache, page_size: int) -> Group:
    """How ``cache`` fills its pages; ``page_size`` is the engine's own, in rows."""
    return Group(rows=cache.rows_per_page or page_size, stride=cache.stride, window=cache.window)
