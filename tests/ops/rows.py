"""What the tests of row invariance share: bit patterns, misaligned storage, threads, and the ops seen row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from samebits.ops import OpSet

DTYPES = [torch.bfloat16, torch.float32]


def patterns(x: Tensor) -> Tensor:
    """The bits of ``x`` as integers, so that −0 differs from +0 and NaN equals itself."""
    return x.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def same_bits(left: Tensor, right: Tensor) -> bool:
    return left.dtype == right.dtype and torch.equal(patterns(left), patterns(right))


def misaligned(x: Tensor, elements: int) -> Tensor:
    """``x`` again, in storage that starts ``elements`` elements late."""
    late = torch.empty(x.numel() + elements, dtype=x.dtype)[elements:].view(x.shape)
    return late.copy_(x)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def normal(*shape: int, dtype: torch.dtype, seed: int, scale: float = 1.0) -> Tensor:
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    draw = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=wide)
    return draw.mul_(scale).to(dtype)


@dataclass(frozen=True, kw_only=True)
class RowOp:
    """An op as a function from rows to rows: ``call(ops, rows, shared)``."""

    name: str
    rows: Callable[[torch.dtype], list[Tensor]]
    """``COUNT`` rows of each per-row argument."""
    shared: Callable[[torch.dtype], list[Tensor]]
    """The arguments that all rows share."""
    call: Callable[[OpSet, list[Tensor], list[Tensor]], Tensor]


COUNT = 24


def linear(k: int, n: int) -> RowOp:
    return RowOp(
        name=f"linear-{k}-{n}",
        rows=lambda dtype: [normal(COUNT, k, dtype=dtype, seed=1)],
        shared=lambda dtype: [normal(n, k, dtype=dtype, seed=2, scale=k**-0.5)],
        call=lambda ops, rows, shared: ops.linear(rows[0], shared[0]),
    )


def rms_norm(*shape: int) -> RowOp:
    return RowOp(
        name="rms_norm-" + "-".join(map(str, shape)),
        rows=lambda dtype: [normal(COUNT, *shape, dtype=dtype, seed=3, scale=3)],
        shared=lambda dtype: [normal(shape[-1], dtype=dtype, seed=4)],
        call=lambda ops, rows, shared: ops.rms_norm(rows[0], shared[0], 1e-5),
    )


def swiglu(width: int) -> RowOp:
    return RowOp(
        name=f"swiglu-{width}",
        rows=lambda dtype: [normal(COUNT, width, dtype=dtype, seed=seed, scale=3) for seed in (5, 6)],
        shared=lambda _: [],
        call=lambda ops, rows, _: ops.swiglu(*rows),
    )


def rope(heads: int, size: int) -> RowOp:
    return RowOp(
        name=f"rope-{heads}-{size}",
        rows=lambda dtype: [
            normal(COUNT, heads, size, dtype=dtype, seed=7),
            normal(COUNT, size // 2, dtype=torch.float32, seed=8).cos(),
            normal(COUNT, size // 2, dtype=torch.float32, seed=8).sin(),
        ],
        shared=lambda _: [],
        call=lambda ops, rows, _: ops.rope(*rows),
    )


def token_logprobs(vocabulary: int) -> RowOp:
    return RowOp(
        name=f"token_logprobs-{vocabulary}",
        rows=lambda dtype: [
            normal(COUNT, vocabulary, dtype=dtype, seed=9, scale=3),
            torch.arange(COUNT) * 37 % vocabulary,
        ],
        shared=lambda _: [],
        call=lambda ops, rows, _: ops.token_logprobs(*rows),
    )


ADD = RowOp(
    name="add-100",
    rows=lambda dtype: [normal(COUNT, 100, dtype=dtype, seed=seed) for seed in (10, 11)],
    shared=lambda _: [],
    call=lambda ops, rows, _: ops.add(*rows),
)
EMBEDDING = RowOp(
    name="embedding-100",
    rows=lambda _: [torch.arange(COUNT) * 5 % 31],
    shared=lambda dtype: [normal(31, 100, dtype=dtype, seed=12)],
    call=lambda ops, rows, shared: ops.embedding(rows[0], shared[0]),
)
# SmolLM2's shapes, a qk-norm, and widths that are no multiple of a vector.
ROW_OPS = [
    linear(576, 960),
    linear(576, 1536),
    linear(1536, 576),
    linear(100, 33),
    rms_norm(576),
    rms_norm(3, 64),
    rms_norm(17),
    swiglu(1536),
    swiglu(33),
    rope(9, 64),
    rope(1, 6),
    token_logprobs(4096),
    token_logprobs(1001),
    ADD,
    EMBEDDING,
]
