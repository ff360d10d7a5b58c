"""Packed queries cut into tiles: the same tile whether a sequence brings one row or a thousand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import torch
from torch import Tensor

POSITIONS: Final = 8
"""Positions of one query tile, in decode as in prefill."""


@dataclass(frozen=True, slots=True)
class QueryTiles:
    """Where each tile's queries come from and go to.

    ``N`` tiles: a tile holds up to :data:`POSITIONS` consecutive rows of one sequence.  A tile's unused places repeat
    its last row, so that nothing undefined (an empty softmax row is NaN) is ever computed.
    """

    sequence: Tensor
    """int64 [N]: which sequence's keys the tile reads."""
    rows: Tensor
    """int64 [N, POSITIONS]: packed row of each place."""
    positions: Tensor
    """int64 [N, POSITIONS]: absolute position of each place; it sees key slots up to there."""
    places: Tensor
    """int64 [T]: flat place of each packed row."""
    one_each: bool
    """Tile ``b`` is sequence ``b``'s only one, as in decode: its keys are where they should be already."""


@lru_cache(maxsize=4)
def _cut(starts: tuple[int, ...], offsets: tuple[int, ...]) -> QueryTiles:
    with torch.inference_mode(mode=False):  # the same tiles serve a later forward that records gradients
        begin = torch.tensor(starts)
        count = begin.diff()
        tiles = (count + POSITIONS - 1) // POSITIONS
        sequence = torch.repeat_interleave(torch.arange(len(offsets)), tiles)
        first_tile = tiles.cumsum(0) - tiles
        nth = torch.arange(len(sequence)) - first_tile[sequence]
        within = nth[:, None] * POSITIONS + torch.arange(POSITIONS)
        within = torch.minimum(within, count[sequence, None] - 1)
        owner = torch.repeat_interleave(torch.arange(len(offsets)), count)
        return QueryTiles(
            sequence=sequence,
            rows=begin[sequence, None] + within,
            positions=torch.tensor(offsets)[sequence, None] + within,
            places=torch.arange(starts[-1]) - begin[owner] + first_tile[owner] * POSITIONS,
            one_each=bool((tiles == 1).all()),
        )


def cut(starts: list[int], offsets: list[int]) -> QueryTiles:
    """The tiles of one forward; kept between its layers.  ``starts`` and ``offsets`` as in ``ops.opset.Batch``."""
    return _cut(tuple(starts), tuple(offsets))
