"""Fixed shapes: how a kernel that is exact at one shape serves every batch.

A BLAS picks its blocking, and with it the order of its sums, from the shape of the call.  Called at one shape only, it
has one order, and a row's result depends on that row alone.  So work is cut into pieces of one size; the ragged last
piece is padded with zeros, and the padding's results are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

ROWS: Final = 32
"""Rows of a matrix tile, everywhere.  16 is faster in decode, 64 in prefill, 32 over a rollout and its scoring."""

LANES: Final = 128
"""Elements that an elementwise kernel takes at a time, or a multiple: two AVX-512 vectors of bf16, twice."""

GRAIN: Final = 32_768
"""``at::internal::GRAIN_SIZE``: elements that are worth one more thread."""


def by_rows(fill: Callable[[Tensor, Tensor], object], x: Tensor, out: Tensor) -> Tensor:
    """Calls ``fill(tile of x, tile of out)`` on tiles of exactly :data:`ROWS` rows until ``out`` is full; returns it.

    ``x`` and ``out`` are contiguous, [T, …] each.  Full tiles are views, so nothing is copied; only the ragged last
    tile goes through scratch, its padding rows zero.
    """
    rows = x.shape[0]
    whole = rows - rows % ROWS
    for start in range(0, whole, ROWS):
        fill(x[start : start + ROWS], out[start : start + ROWS])
    if whole < rows:
        padded = x.new_zeros((ROWS, *x.shape[1:]))
        padded[: rows - whole] = x[whole:]
        scratch = out.new_empty((ROWS, *out.shape[1:]))
        fill(padded, scratch)
        out[whole:] = scratch[: rows - whole]
    return out


def by_lanes(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """``function``, elementwise, with each element on the vectorised path: same shape as ``x``.

    ATen computes whole vectors with one formula and remainders with another (fp32 ``silu`` differs in one element of
    25), and each thread's share has its own remainder.  Here the elements are padded until every share is whole.
    """
    flat = x.contiguous().view(-1)  # reshape would keep an even stride, and with it the other formula
    count = flat.numel()
    shares = min(torch.get_num_threads(), -(-count // GRAIN))  # as at::parallel_for divides
    short = -count % (LANES * max(shares, 1))
    if not short:
        return function(flat).view(x.shape)
    return function(functional.pad(flat, (0, short)))[:count].view(x.shape)
