"""A row's bits come from that row: not from its neighbours, its place, the storage, or the number of threads."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ops.rows import COUNT, DTYPES, ROW_OPS, RowOp, linear, misaligned, normal, patterns, same_bits, threads
from ops.rows import token_logprobs as logprobs_of
from samebits.ops import open_op_set
from samebits.ops.native.norm import row_mean

NATIVE = open_op_set("native")
HOSTILE = [float("nan"), float("inf"), -3e38, 0.0]
by_name = pytest.mark.parametrize("op", ROW_OPS, ids=lambda op: op.name)
in_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["bf16", "fp32"])


@cache
def alone(op: RowOp, dtype: torch.dtype) -> Tensor:
    """Each row computed by itself, on one thread."""
    rows, shared = op.rows(dtype), op.shared(dtype)
    with threads(1):
        return torch.cat([op.call(NATIVE, [x[i : i + 1].clone() for x in rows], shared) for i in range(COUNT)])


@by_name
@in_dtype
@settings(max_examples=10, deadline=None, derandomize=True, database=None)
@given(
    order=st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=70),
    hostile=st.lists(st.tuples(st.integers(0, 70), st.sampled_from(HOSTILE)), max_size=4),
    late=st.integers(0, 7),
    count=st.sampled_from([1, 2]),
)
def test_a_row_is_the_same_in_any_batch(op, dtype, order, hostile, late, count):
    rows = [x[order] for x in op.rows(dtype)]
    honest = torch.ones(len(order), dtype=torch.bool)
    for place, value in hostile:
        if rows[0].is_floating_point() and place < len(order):
            rows[0][place] = value
            honest[place] = False
    with threads(count):
        found = op.call(NATIVE, [misaligned(x, late) for x in rows], [misaligned(x, late) for x in op.shared(dtype)])
    expected = alone(op, dtype)[order]
    assert torch.equal(patterns(found)[honest], patterns(expected)[honest])


@by_name
@in_dtype
def test_a_row_is_the_same_in_strided_storage(op, dtype):
    rows = [torch.stack((x, x), dim=-1)[..., 0] for x in op.rows(dtype)]
    assert same_bits(op.call(NATIVE, rows, op.shared(dtype)), alone(op, dtype))


@in_dtype
@pytest.mark.parametrize("op", [linear(576, 49152), logprobs_of(49152)], ids=lambda op: op.name)
def test_wide_rows_are_the_same_alone_on_two_threads(op, dtype):
    """A vocabulary's row is long enough for ATen to split it between threads."""
    rows, shared = op.rows(dtype), op.shared(dtype)
    with threads(1):
        together = op.call(NATIVE, rows, shared)
    for count in (1, 2):
        with threads(count):
            for place in (0, COUNT - 1):
                single = op.call(NATIVE, [x[place : place + 1].clone() for x in rows], shared)
                assert same_bits(single, together[place : place + 1])


def test_a_long_row_that_is_alone_is_summed_like_the_others():
    """ATen sums a single long row in as many parts as there are threads."""
    x = normal(64, 40_000, dtype=torch.float32, seed=13).square_()
    together = row_mean(x)
    with threads(2):
        assert same_bits(torch.cat([row_mean(row[None]) for row in x]), together)


@in_dtype
def test_three_and_four_threads_move_no_remainder_into_the_middle(dtype):
    """33 × 3,003 elements are worth four threads, and no share of them is a whole number of vectors."""
    gate, up = (torch.linspace(-9, 9, 33 * 3003).to(dtype).view(33, 3003) for _ in range(2))
    with threads(1):
        expected = torch.cat([NATIVE.swiglu(gate[i : i + 1], up[i : i + 1]) for i in range(33)])
    for count in (3, 4):
        with threads(count):
            assert same_bits(NATIVE.swiglu(gate, up), expected)
