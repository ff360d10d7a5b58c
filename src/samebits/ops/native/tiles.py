"""Fixed shapes: how a kernel that is only exact at one shape serves every batch.

A BLAS picks its blocking, and so the order of its sums, from the shape of the call.  Called at one shape only, it has
one order; a row's result then depends on that row alone.  So work is cut into pieces of one fixed size, and the ragged
last piece is padded with zeros and cut again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

ROWS: Final = 32
"""Rows of a matrix tile, everywhere.  16 and 64 give the same bits; 32 is fastest over a rollout with its scoring."""

BLOCK: Final = 1536
"""Elements of a block: a multiple of 128 (two AVX-512 vectors of bf16, ATen's loop step) for each of 1–4 threads."""


def by_rows(fill: Callable[[Tensor, Tensor], object], x: Tensor, out: Tensor) -> Tensor:
    """Calls ``fill(tile of x, tile of out)`` on tiles of exactly :data:`ROWS` rows until ``out`` is full; returns it.

    ``x`` is [T, …] and ``out`` [T, …], both contiguous.  Full tiles are views, so nothing is copied; only the last,
    ragged tile goes through padded scratch, its padding rows zero.
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


def by_blocks(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """``function``, elementwise, with every element on the vectorised path: same shape as ``x``.

    ATen computes whole vectors with one formula and the remainder with another (``exp`` and all that is made of it
    differ in the last bit), and a second thread moves the remainder into the middle.  In whole blocks there is none.
    """
    flat = x.reshape(-1)
    count = flat.numel()
    short = -count % BLOCK
    if short == 0:
        return function(flat).view(x.shape)
    return function(torch.nn.functional.pad(flat, (0, short)))[:count].view(x.shape)
