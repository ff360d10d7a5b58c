"""Sinkhorn–Knopp on one small matrix for each token (manifold-constrained hyper-connections, arXiv:2512.24880)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from samebits.ops.sinkhorn import sinkhorn as differentiable


def sinkhorn(logits: Tensor, iterations: int, epsilon: float) -> Tensor:
    """See ``SparseOps.sinkhorn``."""
    result: Tensor = Sinkhorn.apply(logits, iterations, epsilon)  # type: ignore[no-untyped-call]  # torch's
    return result


class Sinkhorn(Function):
    """In place forward; the backward runs the iterations again, for keeping all of them costs more memory than time."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, iterations: int, epsilon: float) -> Tensor:
        ctx.save_for_backward(logits)
        ctx.iterations, ctx.epsilon = iterations, epsilon
        # Matrices side by side, so that each step is a few operations on whole planes of tokens.
        planes = (torch.softmax(logits, dim=-1) + epsilon).permute(1, 2, 0).contiguous()
        total = torch.empty_like(planes[:1])
        for step in range(iterations):
            if step:
                rows = total.view(planes.shape[1], 1, -1)
                _divide(planes, 1, rows, epsilon)
            _divide(planes, 0, total, epsilon)
        return planes.permute(2, 0, 1).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        with torch.enable_grad():
            logits = ctx.saved_tensors[0].detach().requires_grad_()
            found = differentiable(logits, ctx.iterations, ctx.epsilon)
            (to_logits,) = torch.autograd.grad(found, logits, gradient)
        return to_logits, None, None


def _divide(planes: Tensor, dimension: int, total: Tensor, epsilon: float) -> None:
    """``planes`` [n, n, T] over their sums along ``dimension``, which are made in ``total``, ascending."""
    torch.add(planes.select(dimension, 0), planes.select(dimension, 1), out=total.squeeze(dimension))
    for at in range(2, planes.shape[dimension]):
        total.squeeze(dimension).add_(planes.select(dimension, at))
    planes.div_(total.add_(epsilon))
