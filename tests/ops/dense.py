"""The dense ops of any op set beside what they should be, and the check of values and gradients against float64."""

from __future__ import annotations

import itertools

import torch
from torch.nn import functional

from ops.packed import Packed
from ops.rows import normal
from samebits.ops.opset import KEYS, VALUES
from samebits.ops.rope import Rope

LENGTHS = [5, 1, 70]
TOKENS = sum(LENGTHS)
# Relative error of a whole tensor (Frobenius norm): one rounding to bf16 is 2^-9 at most, and an op makes a few.
TOLERANCE = {torch.bfloat16: 2.0**-7, torch.float32: 2.0**-21}
IDS = torch.arange(TOKENS) * 7 % 50


def attention(ops, query, keys, values):
    batch = Packed(LENGTHS, 96)
    batch.store(0, KEYS, keys)
    batch.store(0, VALUES, values)
    return ops.attention(query, batch, 0)


def reference_attention(query, keys, values):
    parts = []
    for start, end in itertools.pairwise(itertools.accumulate(LENGTHS, initial=0)):
        q, k, v = (x[start:end].transpose(0, 1) for x in (query, keys, values))
        k, v = (x.repeat_interleave(len(q) // len(x), dim=0) for x in (k, v))
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
        parts.append((scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(0, 1))
    return torch.cat(parts)


def tables():
    """Rounded to bf16, so that every op set gets the same numbers in whatever dtype its own tables have."""
    angle = normal(TOKENS, 8, dtype=torch.float32, seed=30)
    return angle.cos().bfloat16(), angle.sin().bfloat16()


def rope(ops, x):
    own = ops.rope_tables(IDS.to(ops.device), Rope(positions=64, size=16, theta=1e4), x.dtype)[0]
    return ops.rope(x, *(table.to(own) for table in tables()))


def reference_rope(x):
    cos, sin = (table.to(x)[:, None] for table in tables())
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def reference_norm(x, weight):
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight


# Name: the op over an op set, what it should be, the shapes of its differentiable arguments.
OPS = {
    "linear": (lambda ops, x, w: ops.linear(x, w), lambda x, w: x @ w.t(), [(TOKENS, 64), (40, 64)]),
    "linears": (
        lambda ops, x, w, v: torch.cat(ops.linears(x, [w, v]), dim=1),
        lambda x, w, v: torch.cat((x @ w.t(), x @ v.t()), dim=1),
        [(TOKENS, 64), (48, 64), (16, 64)],
    ),
    "embedding": (lambda ops, w: ops.embedding(IDS.to(ops.device), w), lambda w: w[IDS], [(50, 20)]),
    "add": (lambda ops, x, y: ops.add(x, y), lambda x, y: x + y, [(TOKENS, 20)] * 2),
    "rms_norm": (lambda ops, x, w: ops.rms_norm(x, w, 1e-5), reference_norm, [(TOKENS, 3, 24), (24,)]),
    "add_rms_norm": (
        lambda ops, x, r, w: torch.cat(ops.add_rms_norm(x, r, w, 1e-5)),
        lambda x, r, w: torch.cat((reference_norm(x + r, w), x + r)),
        [(TOKENS, 24), (TOKENS, 24), (24,)],
    ),
    "swiglu": (
        lambda ops, gate, up: ops.swiglu(gate, up),
        lambda gate, up: gate * torch.sigmoid(gate) * up,
        [(TOKENS, 33)] * 2,
    ),
    "rope": (rope, reference_rope, [(TOKENS, 2, 16)]),
    "attention": (attention, reference_attention, [(TOKENS, 4, 64), (TOKENS, 2, 64), (TOKENS, 2, 64)]),
    "token_logprobs": (
        lambda ops, logits: ops.token_logprobs(logits, IDS.to(ops.device)),
        lambda logits: functional.log_softmax(logits, -1)[torch.arange(TOKENS), IDS],
        [(TOKENS, 50)],
    ),
}


def arguments(op, dtype, device=None):
    return [normal(*shape, dtype=dtype, seed=20 + i).to(device).requires_grad_() for i, shape in enumerate(OPS[op][2])]


def relative(found, expected):
    return float(((found.detach().cpu().double() - expected).norm() / expected.norm()).detach())


def check_against_float64(ops, op, dtype):
    """Values and gradients of ``op`` within :data:`TOLERANCE` of float64, in the dtypes that the contract says.

    float64 is computed on the CPU: on a GPU, vLLM overrides ``mean`` for every dtype and computes it in fp32.
    """
    call, reference, _ = OPS[op]
    given = arguments(op, dtype, ops.device)
    exact = [x.detach().cpu().double().requires_grad_() for x in given]
    found, expected = call(ops, *given), reference(*exact)
    assert found.dtype == (torch.float32 if op == "token_logprobs" else dtype)
    assert found.shape == expected.shape
    assert relative(found, expected) <= TOLERANCE[dtype]

    direction = normal(*found.shape, dtype=found.dtype, seed=40)
    gradients = torch.autograd.grad(found, given, direction.to(ops.device))
    exact_gradients = torch.autograd.grad(expected, exact, direction.double())
    for argument, gradient, right in zip(given, gradients, exact_gradients, strict=True):
        assert gradient.dtype == argument.dtype
        assert relative(gradient, right) <= TOLERANCE[dtype]
