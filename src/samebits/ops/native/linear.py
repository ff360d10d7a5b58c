"""Linear layers whose rows do not see each other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from samebits.ops.native.tiles import by_rows


class Linear(Function):
    """``x @ weight.T`` by fixed row tiles; the backward is two ordinary matmuls, for gradients need no such care."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return tiled_matmul(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        to_x = gradient @ weight if ctx.needs_input_grad[0] else None
        to_weight = gradient.t() @ x if ctx.needs_input_grad[1] else None
        return to_x, to_weight


def tiled_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """[T, K] by [N, K] to [T, N] in the dtype of ``x``: one product of fixed shape for each tile of rows."""
    right = weight.contiguous().t()
    return by_rows(
        lambda tile, out: torch.mm(tile, right, out=out),
        x.contiguous(),
        x.new_empty((x.shape[0], weight.shape[0])),
    )
