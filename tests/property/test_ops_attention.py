"""A token's attention is the same bits whether it is decoded, prefilled in chunks or all at once, and beside whom."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ops.packed import Packed
from ops.rows import DTYPES, misaligned, normal, same_bits, threads
from samebits.ops import OpSet, open_op_set
from samebits.ops.opset import KEYS, VALUES

LENGTHS = [1, 7, 40, 64, 65, 131]
SHAPES = [(9, 3, 64), (4, 4, 32), (2, 1, 48), (1, 1, 16)]
in_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["bf16", "fp32"])
of_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape)))

Sequence = list[Tensor]
"""Query, keys and values of one sequence."""


@cache
def sequences(shape: tuple[int, int, int], dtype: torch.dtype) -> list[Sequence]:
    heads, groups, size = shape
    return [
        [normal(length, h, size, dtype=dtype, seed=100 * i + j, scale=2) for j, h in enumerate((heads, groups, groups))]
        for i, length in enumerate(LENGTHS)
    ]


@cache
def alone(shape: tuple[int, int, int], dtype: torch.dtype) -> list[Tensor]:
    """Each sequence by itself in one forward on one thread, with no slot to spare."""
    with threads(1):
        return [
            attend(open_op_set("native"), [sequence], slots=len(sequence[0]), plan=[[len(sequence[0])]])[0]
            for sequence in sequences(shape, dtype)
        ]


def attend(ops: OpSet, given: list[Sequence], *, slots: int, plan: list[list[int]], late: int = 0) -> list[Tensor]:
    """Attention over ``given``; step ``i`` of the plan brings ``plan[i][b]`` further rows of sequence ``b``."""
    batch, done, found = None, [0] * len(given), [[] for _ in given]
    for step in plan:
        batch = Packed(step, slots, batch)
        new = [
            torch.cat([sequence[j][a : a + n] for sequence, a, n in zip(given, done, step, strict=True)])
            for j in range(3)
        ]
        batch.late = late
        batch.store(0, KEYS, new[1])
        batch.store(0, VALUES, new[2])
        rows = ops.attention(misaligned(new[0], late), batch, 0)
        for b, (start, end) in enumerate(itertools.pairwise(batch.starts)):
            found[b].append(rows[start:end])
        done = [a + n for a, n in zip(done, step, strict=True)]
    return [torch.cat(rows) for rows in found]


@st.composite
def schedules(draw):
    """Which sequences run together, and how many rows of each come at each step (0: it waits)."""
    chosen = draw(st.lists(st.integers(0, len(LENGTHS) - 1), min_size=1, max_size=5))
    cuts = [sorted(draw(st.lists(st.integers(0, LENGTHS[i]), min_size=3, max_size=3))) for i in chosen]
    bounds = [[0, *cut, LENGTHS[i]] for cut, i in zip(cuts, chosen, strict=True)]
    return chosen, [[b[step + 1] - b[step] for b in bounds] for step in range(4)]


@of_shape
@in_dtype
@settings(max_examples=10, deadline=None, derandomize=True, database=None)
@given(
    schedule=schedules(),
    spare=st.integers(0, 130),
    late=st.integers(0, 7),
    count=st.sampled_from([1, 2]),
    poisoned=st.booleans(),
)
def test_chunks_companions_slots_storage_and_threads_leave_no_trace(
    shape, dtype, schedule, spare, late, count, poisoned
):
    chosen, plan = schedule
    given_ = [sequences(shape, dtype)[i] for i in chosen]
    if poisoned:  # one more companion, all NaN
        given_ = [*given_, [torch.full_like(x[:9], torch.nan) for x in sequences(shape, dtype)[2]]]
        plan = [[*step, n] for step, n in zip(plan, (2, 4, 0, 3), strict=True)]
    with threads(count):
        found = attend(open_op_set("native"), given_, slots=max(LENGTHS) + spare, plan=plan, late=late)
    for rows, i in zip(found, chosen, strict=False):
        assert same_bits(rows, alone(shape, dtype)[i])


@of_shape
@in_dtype
def test_token_by_token_equals_one_pass(shape, dtype):
    given_ = sequences(shape, dtype)
    plan = [[int(step < length) for length in LENGTHS] for step in range(max(LENGTHS))]
    for rows, expected in zip(
        attend(open_op_set("native"), given_, slots=192, plan=plan), alone(shape, dtype), strict=True
    ):
        assert same_bits(rows, expected)


@in_dtype
def test_plain_is_not_invariant_between_decode_and_prefill(dtype):
    """What the control arm rests on: 131 tokens of SmolLM2's heads, decoded one by one and in one pass."""
    sequence = sequences(SHAPES[0], dtype)[-1]
    one_pass = attend(open_op_set("plain"), [sequence], slots=131, plan=[[131]])[0]
    decoded = attend(open_op_set("plain"), [sequence], slots=131, plan=[[1]] * 131)[0]
    assert not same_bits(decoded, one_pass)
    torch.testing.assert_close(decoded, one_pass, rtol=2e-2, atol=2e-2)
