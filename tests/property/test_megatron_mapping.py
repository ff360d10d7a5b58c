from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.actor.megatron.mapping import Blocks


@settings(deadline=None)
@given(
    groups=st.integers(1, 5),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
    width=st.integers(1, 3),
    dim=st.integers(0, 1),
)
def test_split_undoes_fuse_bit_for_bit(groups, sizes, width, dim):
    blocks = Blocks(groups=groups, sizes=sizes)
    shapes = [(groups * size, width) if dim == 0 else (width, groups * size) for size in sizes]
    parts = [torch.randint(-(2**15), 2**15, shape, dtype=torch.int16) for shape in shapes]
    fused = blocks.fuse(parts, dim)
    assert fused.shape[dim] == groups * sum(sizes)
    for part, found in zip(parts, blocks.split(fused, dim), strict=True):
        assert torch.equal(part, found)
    assert torch.equal(blocks.fuse(blocks.split(fused, dim), dim), fused)
