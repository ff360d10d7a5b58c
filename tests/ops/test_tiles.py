from __future__ import annotations

import pytest
import torch

from ops.rows import threads
from samebits.ops.native.tiles import ROWS, by_lanes, by_rows


@pytest.mark.parametrize(("rows", "tiles"), [(0, 0), (1, 1), (32, 1), (33, 2), (96, 3)])
def test_every_tile_has_the_same_number_of_rows(rows, tiles):
    x = torch.arange(1.0, 2 * rows + 1).view(rows, 2)
    shapes = []

    def double(tile, out):
        shapes.append(tuple(tile.shape))
        torch.mul(tile, 2, out=out)

    out = by_rows(double, x, torch.empty(rows, 2))
    assert torch.equal(out, x * 2)
    assert shapes == [(ROWS, 2)] * tiles


def test_full_tiles_are_views_and_padding_is_zero():
    x = torch.ones(40, 3)
    seen = []
    by_rows(lambda tile, out: seen.append((tile.clone(), tile.data_ptr(), out.zero_())), x, torch.empty(40, 3))
    (_, first, _), (last, _, _) = seen
    assert first == x.data_ptr()
    assert last[:8].eq(1).all()
    assert last[8:].eq(0).all()


@pytest.mark.parametrize(
    ("elements", "count", "given"),
    [(0, 2, 0), (1, 1, 128), (128, 4, 128), (32_769, 1, 32_896), (32_769, 2, 33_024), (70_000, 3, 70_272)],
)
def test_every_threads_share_is_whole(elements, count, given):
    sizes = []
    with threads(count):
        out = by_lanes(lambda x: sizes.append(len(x)) or -x, torch.ones(elements))
    assert sizes == [given]
    assert torch.equal(out, -torch.ones(elements))
