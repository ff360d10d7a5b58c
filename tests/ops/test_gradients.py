"""Values and gradients of the op sets of row ``cpu`` against float64."""

from __future__ import annotations

import pytest
import torch

from ops.dense import OPS, arguments, attention, check_against_float64
from ops.packed import Packed
from ops.rows import DTYPES, normal
from samebits.ops import open_op_set
from samebits.ops.opset import KEYS, VALUES

NAMES = ["native", "plain"]
of_op = pytest.mark.parametrize("op", OPS)
of_set = pytest.mark.parametrize("name", NAMES)


@of_op
@of_set
@pytest.mark.parametrize("dtype", DTYPES, ids=["bf16", "fp32"])
def test_values_and_gradients_are_near_float64(op, name, dtype):
    check_against_float64(open_op_set(name), op, dtype)


@of_op
@of_set
def test_backward_is_the_derivative_of_forward(op, name):
    """Finite differences in float64, along one random direction."""
    call = OPS[op][0]
    assert torch.autograd.gradcheck(
        lambda *x: call(open_op_set(name), *x), arguments(op, torch.float64), fast_mode=True
    )


@of_set
def test_a_later_chunk_has_gradients_into_earlier_keys(name):
    """Rows 3 … 7 of a sequence whose first three rows came before."""
    q, k, v = (normal(8, h, 16, dtype=torch.float64, seed=50 + h).requires_grad_() for h in (4, 2, 1))
    v = v.expand(8, 2, 16)
    whole = Packed([8], 16)
    before = Packed([3], 16)
    before.store(0, KEYS, k[:3])
    before.store(0, VALUES, v[:3])
    later = Packed([5], 16, before=before)
    for batch, first in ((whole, 0), (later, 3)):
        batch.store(0, KEYS, k[first:])
        batch.store(0, VALUES, v[first:])
    one = open_op_set(name).attention(q, whole, 0)[3:]
    two = open_op_set(name).attention(q[3:], later, 0)
    torch.testing.assert_close(two, one, rtol=1e-12, atol=1e-12)
    for left, right in zip(
        torch.autograd.grad(two.square().sum(), (q, k), retain_graph=True),
        torch.autograd.grad(one.square().sum(), (q, k)),
        strict=True,
    ):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12)


def test_recording_gradients_after_inference_mode():
    """The tiles kept from a rollout's forward serve a training forward."""
    given = arguments("attention", torch.float32)
    with torch.inference_mode():
        before = attention(open_op_set("native"), *given)
    after = attention(open_op_set("native"), *given)
    after.sum().backward()
    assert torch.equal(before, after)
    assert given[0].grad is not None
