"""Packed queries cut into tiles: the same shapes whether a sequence brings one row or a thousand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import torch
from torch import Tensor

POSITIONS: Final = 8
"""Places of one query tile, in decode as in prefill."""

SPAN: Final = 64
"""Key slots are taken in multiples of this: a query at position p meets ``(p // SPAN + 1) * SPAN`` of them."""


@dataclass(frozen=True, slots=True)
class QueryTiles:
    """Where each of ``N`` tiles takes its queries from, and where they go.

    A tile holds up to :data:`POSITIONS` consecutive rows of one sequence, all in one span of positions, from its first
    place on.  Left-over places repeat the last row, so that nothing undefined is computed (an empty softmax is NaN).
    """

    sequence: Tensor
    """int64 [N]: whose keys the tile reads."""
    span: Tensor
    """int64 [N]: ``position // SPAN`` of its queries; decides the shape of its products."""
    rows: Tensor
    """int64 [N, POSITIONS]: packed row of each place."""
    positions: Tensor
    """int64 [N, POSITIONS]: absolute position of each place; it sees key slots up to there."""
    used: Tensor
    """int64 [N]: places that are not repetitions."""
    places: Tensor
    """int64 [T]: flat place of each packed row."""

    def parts(self, slots_at_once: int) -> Iterator[tuple[int, Tensor]]:
        """Slots of a span and indices of tiles in it, as many as need at most ``slots_at_once`` of them together."""
        for span in sorted(set(self.span.tolist())):
            slots = (span + 1) * SPAN
            tiles = (self.span == span).nonzero().squeeze(1)
            many = max(slots_at_once // slots, 1)
            for start in range(0, len(tiles), many):
                yield slots, tiles[start : start + many]


def cut(starts: list[int], offsets: list[int], device: torch.device | None = None) -> QueryTiles:
    """The tiles of one forward, kept between its layers; ``starts`` and ``offsets`` as in ``ops.opset.Batch``."""
    return _cut(tuple(starts), tuple(offsets), device)


@lru_cache(maxsize=4)
def _cut(starts: tuple[int, ...], offsets: tuple[int, ...], device: torch.device | None) -> QueryTiles:
    with torch.inference_mode(mode=False):  # the same tiles may serve a forward that records gradients
        begin, offset = torch.tensor(starts), torch.tensor(offsets)
        sequence = torch.repeat_interleave(torch.arange(len(offsets)), begin.diff())
        row = torch.arange(starts[-1])
        position = row - begin[sequence] + offset[sequence]
        span = position // SPAN
        place = (position - torch.maximum(offset[sequence], span * SPAN)) % POSITIONS

        first = (place == 0).nonzero().squeeze(1)
        used = torch.cat((first, begin[-1:])).diff()
        repeated = torch.minimum(torch.arange(POSITIONS), used[:, None] - 1)
        return QueryTiles(
            sequence=sequence[first].to(device),
            span=span[first].to(device),
            rows=(first[:, None] + repeated).to(device),
            positions=(position[first, None] + repeated).to(device),
            used=used.to(device),
            places=(((place == 0).cumsum(0) - 1) * POSITIONS + place).to(device),
        )
