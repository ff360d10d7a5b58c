"""Values and gradients of both op sets against float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from ops.packed import Packed
from ops.rows import DTYPES, normal
from samebits.ops import open_op_set
from samebits.ops.opset import KEYS, VALUES

NAMES = ["native", "plain"]
LENGTHS = [5, 1, 70]
TOKENS = sum(LENGTHS)
# Relative error of a whole tensor (Frobenius norm): one rounding to bf16 is 2^-9 at most, and an op makes a few.
TOLERANCE = {torch.bfloat16: 2.0**-7, torch.float32: 2.0**-21}


def attention(ops, query, keys, values):
    batch = Packed(LENGTHS, 96)
    batch.store(0, KEYS, keys)
    batch.store(0, VALUES, values)
    return ops.attention(query, batch, 0)


def reference_attention(query, keys, values):
    parts, start = [], 0
    for length in LENGTHS:
        q, k, v = (x[start : start + length].transpose(0, 1) for x in (query, keys, values))
        k, v = (x.repeat_interleave(len(q) // len(x), dim=0) for x in (k, v))
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        parts.append((scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(0, 1))
        start += length
    return torch.cat(parts)


def rope_tables(tokens):
    angle = normal(tokens, 8, dtype=torch.float32, seed=30)
    return angle.cos(), angle.sin()


def reference_rope(x):
    cos, sin = (table.double()[:, None] for table in rope_tables(len(x)))
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


IDS = torch.arange(TOKENS) * 7 % 50
# Name: the op over an op set, what it should be, the shapes of its differentiable arguments.
OPS = {
    "linear": (lambda ops, x, w: ops.linear(x, w), lambda x, w: x @ w.t(), [(TOKENS, 48), (40, 48)]),
    "embedding": (lambda ops, w: ops.embedding(IDS, w), lambda w: w[IDS], [(50, 20)]),
    "add": (lambda ops, x, y: ops.add(x, y), lambda x, y: x + y, [(TOKENS, 20)] * 2),
    "rms_norm": (
        lambda ops, x, w: ops.rms_norm(x, w, 1e-5),
        lambda x, w: x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w,
        [(TOKENS, 3, 24), (24,)],
    ),
    "swiglu": (
        lambda ops, gate, up: ops.swiglu(gate, up),
        lambda gate, up: gate * torch.sigmoid(gate) * up,
        [(TOKENS, 33)] * 2,
    ),
    "add_rms_norm": (
        lambda ops, x, r, w: torch.cat(ops.add_rms_norm(x, r, w, 1e-5)),
        lambda x, r, w: torch.cat(((x + r) / ((x + r).square().mean(-1, keepdim=True) + 1e-5).sqrt() * w, x + r)),
        [(TOKENS, 24), (TOKENS, 24), (24,)],
    ),
    "linears": (
        lambda ops, x, w, v: torch.cat(ops.linears(x, [w, v]), dim=1),
        lambda x, w, v: torch.cat((x @ w.t(), x @ v.t()), dim=1),
        [(TOKENS, 48), (40, 48), (16, 48)],
    ),
    "rope": (lambda ops, x: ops.rope(x, *rope_tables(TOKENS)), reference_rope, [(TOKENS, 2, 16)]),
    "attention": (attention, reference_attention, [(TOKENS, 4, 16), (TOKENS, 2, 16), (TOKENS, 2, 16)]),
    "token_logprobs": (
        lambda ops, logits: ops.token_logprobs(logits, IDS),
        lambda logits: functional.log_softmax(logits, -1)[torch.arange(TOKENS), IDS],
        [(TOKENS, 50)],
    ),
}
of_op = pytest.mark.parametrize("op", OPS)
of_set = pytest.mark.parametrize("name", NAMES)


def arguments(op, dtype):
    return [normal(*shape, dtype=dtype, seed=20 + i).requires_grad_() for i, shape in enumerate(OPS[op][2])]


def relative(found, expected):
    return float(((found.double() - expected).norm() / expected.norm()).detach())


@of_op
@of_set
@pytest.mark.parametrize("dtype", DTYPES, ids=["bf16", "fp32"])
def test_values_and_gradients_are_near_float64(op, name, dtype):
    call, reference, _ = OPS[op]
    given = arguments(op, dtype)
    exact = [x.detach().double().requires_grad_() for x in given]
    found, expected = call(open_op_set(name), *given), reference(*exact)
    assert found.dtype == (torch.float32 if op == "token_logprobs" else dtype)
    assert found.shape == expected.shape
    assert relative(found, expected) <= TOLERANCE[dtype]

    direction = normal(*found.shape, dtype=found.dtype, seed=40)
    gradients = torch.autograd.grad(found, given, direction)
    exact_gradients = torch.autograd.grad(expected, exact, direction.double())
    for argument, gradient, right in zip(given, gradients, exact_gradients, strict=True):
        assert gradient.dtype == argument.dtype
        assert relative(gradient, right) <= TOLERANCE[dtype]


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
