"""The tensors behind the pages."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from samebits.models.family import Decoder


class PagedCache:
    """Storage for every cache row that ``decoder`` leaves behind, in pages that all layers share.

    Caches of one name and row shape are one tensor [layers, 1 + pages, page size, *row shape], so that a page is
    zeroed in all layers by one call.
    """

    def __init__(self, decoder: Decoder, *, pages: int, page_size: int, dtype: torch.dtype) -> None:
        groups: dict[tuple[str, tuple[int, ...]], list[int]] = {}
        for layer in range(decoder.layers):
            for cache in decoder.caches(layer):
                groups.setdefault((cache.name, cache.row_shape), []).append(layer)
        self._storage: list[Tensor] = []
        self._views: dict[tuple[int, str], tuple[Tensor, Tensor]] = {}
        for (name, row_shape), layers in groups.items():
            storage = torch.zeros(len(layers), 1 + pages, page_size, *row_shape, dtype=dtype)
            self._storage.append(storage)
            for place, layer in enumerate(layers):
                by_page = storage[place].view(1 + pages, -1)
                by_slot = storage[place].view((1 + pages) * page_size, *row_shape)
                self._views[layer, name] = (by_page, by_slot)
        self.page_size = page_size

    def zero(self, pages: Sequence[int]) -> None:
        """Zero ``pages`` in all layers."""
        if pages:
            index = torch.tensor(pages)
            for storage in self._storage:
                storage.index_fill_(1, index, 0)

    def by_slot(self, layer: int, name: str) -> Tensor:
        """[slots, *row shape]: slot ``page * page_size + offset``."""
        return self._views[layer, name][1]

    def by_page(self, layer: int, name: str) -> Tensor:
        """[pages, page size * row]: a page's rows end to end."""
        return self._views[layer, name][0]
