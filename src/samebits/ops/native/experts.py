"""Experts on tiles of fixed shape: dropless, and no token's result depends on who else chose its expert."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from samebits.ops.native.products import one_each
from samebits.ops.native.tiles import ROWS
from samebits.ops.sparse import Dispatch

TILES_AT_ONCE: Final = 64
"""In one batched product: bounds the copies of expert weights, decides no bits."""


def dispatch(routes: Tensor, experts: int) -> Dispatch:
    """See ``SparseOps.dispatch``: each expert's rows padded to whole tiles of :data:`ROWS`."""
    flat = routes.reshape(-1)
    order = torch.sort(flat, stable=True).indices
    used = torch.bincount(flat, minlength=experts)
    counts = (used + ROWS - 1) // ROWS * ROWS
    # Place of the sorted slot i: i, plus the unused places of the experts before its own.
    unused = (counts - used).cumsum(0) - (counts - used)
    sorted_places = torch.arange(len(flat)) + unused[flat[order]]
    source = torch.full((int(counts.sum()),), len(flat)).index_copy_(0, sorted_places, order)
    places = torch.empty_like(flat).index_copy_(0, order, sorted_places)
    return Dispatch(counts=counts.tolist(), used=used.tolist(), source=source, places=places.view(routes.shape))


def grouped_linear(x: Tensor, weight: Tensor, plan: Dispatch) -> Tensor:
    """[P, K] by [E, N, K] to [P, N] in the dtype of ``x``."""
    result: Tensor = GroupedLinear.apply(x, weight, plan)  # type: ignore[no-untyped-call]  # torch's
    return result


class GroupedLinear(Function):
    """One product [ROWS, K] by [K, N] for each tile; the backward is two matmuls for each expert."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, plan: Dispatch) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.plan = plan
        tiles = x.view(-1, ROWS, x.shape[1])
        of_tile = [expert for expert, count in enumerate(plan.counts) for _ in range(count // ROWS)]
        out = x.new_empty((len(tiles), ROWS, weight.shape[1]))
        for start in range(0, len(tiles), TILES_AT_ONCE):
            part = slice(start, start + TILES_AT_ONCE)
            chosen = of_tile[part]
            whole = chosen == list(range(len(weight)))  # usual in decode: each expert has one tile, nothing to copy
            own = weight if whole else weight.index_select(0, torch.tensor(chosen))
            out[part] = one_each(tiles[part], own.transpose(1, 2))
        return out.view(len(x), -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        to_x = torch.zeros_like(x) if ctx.needs_input_grad[0] else None
        to_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        start = 0
        for expert, (count, used) in enumerate(zip(ctx.plan.counts, ctx.plan.used, strict=True)):
            rows = slice(start, start + used)
            start += count
            if to_x is not None:
                torch.mm(gradient[rows], weight[expert], out=to_x[rows])
            if to_weight is not None:
                torch.mm(gradient[rows].t(), x[rows], out=to_weight[expert])
        return to_x, to_weight, None
