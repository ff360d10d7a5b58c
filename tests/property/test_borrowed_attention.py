"""Gradients of borrowed attention do not depend on how sequences are packed, or on the padding behind them."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.borrowed import borrowed
from ops.packed import Packed
from ops.rows import normal
from samebits.ops.opset import KEYS, VALUES


def gradients(query, keys, values, direction, lengths):
    given = [x.detach().clone().requires_grad_() for x in (query, keys, values)]
    batch = Packed(lengths, max(lengths))
    batch.store(0, KEYS, given[1])
    batch.store(0, VALUES, given[2])
    return torch.autograd.grad(borrowed().attention(given[0], batch, 0), given, direction)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=5), st.sampled_from([(4, 2), (3, 3), (2, 1)]))
@settings(max_examples=40, deadline=None)
def test_each_sequence_has_its_own_gradients(lengths, heads):
    tokens = sum(lengths)
    query, keys, values, direction = (
        normal(tokens, count, 8, dtype=torch.float64, seed=seed)
        for seed, count in enumerate((heads[0], heads[1], heads[1], heads[0]))
    )
    together = gradients(query, keys, values, direction, lengths)
    parts = zip(*(torch.split(x, lengths) for x in (query, keys, values, direction)), strict=True)
    alone = [gradients(*part, [length]) for part, length in zip(parts, lengths, strict=True)]
    for whole, found in zip(together, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(whole, torch.cat(found), rtol=1e-10, atol=1e-12)
