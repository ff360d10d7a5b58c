"""The table without Megatron: what Megatron itself says of it is in test_layout."""

from __future__ import annotations

import pytest
import torch

from actor import tiny
from samebits.actor.megatron.mapping import Blocks, gate_up_blocks, qkv_blocks, table
from samebits.models import open_decoder, seeded_config, seeded_weights

from .worlds import SHAPES


def rows(*names: str) -> torch.Tensor:
    return torch.tensor([[ord(letter) for letter in name] for name in names])


def test_qkv_is_interleaved_by_query_group():
    """Megatron's order: the query heads of a group, its key, its value."""
    blocks = Blocks(groups=2, sizes=(4, 2, 2))  # four query heads, two key heads, head size 2
    query = rows("q0", "Q0", "q1", "Q1", "q2", "Q2", "q3", "Q3")
    key, value = rows("k0", "K0", "k1", "K1"), rows("v0", "V0", "v1", "V1")
    fused = rows("q0", "Q0", "q1", "Q1", "k0", "K0", "v0", "V0", "q2", "Q2", "q3", "Q3", "k1", "K1", "v1", "V1")
    assert torch.equal(blocks.fuse([query, key, value]), fused)
    for part, found in zip((query, key, value), blocks.split(fused), strict=True):
        assert torch.equal(part, found)
        assert found.is_contiguous()


def test_fc1_has_the_gate_first():
    blocks = Blocks(groups=1, sizes=(2, 2))
    gate, up = rows("g0", "g1"), rows("u0", "u1")
    assert torch.equal(blocks.fuse([gate, up]), rows("g0", "g1", "u0", "u1"))


def test_channels_are_laid_out_as_rows_are():
    blocks = Blocks(groups=2, sizes=(4, 2, 2))
    parts = [torch.arange(16).view(2, 8), torch.arange(100, 108).view(2, 4), torch.arange(200, 208).view(2, 4)]
    by_rows = blocks.fuse([part.t() for part in parts])
    assert torch.equal(blocks.fuse(parts, dim=1), by_rows.t())
    assert torch.equal(blocks.split(by_rows.t(), dim=1)[1], parts[1])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_table_holds_every_tensor_once_and_all_of_it(shape):
    model = tiny.model(**shape)
    decoder, weights = open_decoder(seeded_config(model)), seeded_weights(model)
    entries = table(decoder.dense)
    assert sorted(name for entry in entries for name in entry.tensors) == sorted(weights)
    assert len({entry.parameter for entry in entries}) == len(entries)
    back = {}
    for entry in entries:
        parameter = entry.fuse(weights)
        assert parameter.numel() == sum(weights[name].numel() for name in entry.tensors)
        back |= entry.split(parameter)
    for name, weight in weights.items():
        assert torch.equal(back[name], weight)


def test_blocks_of_a_shape():
    dense = open_decoder(seeded_config(tiny.model())).dense  # 4 query heads, 2 key heads, head size 16
    assert qkv_blocks(dense) == Blocks(groups=2, sizes=(32, 16, 16))
    assert gate_up_blocks(dense) == Blocks(groups=1, sizes=(64, 64))
