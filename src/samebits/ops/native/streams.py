"""Sinkhorn–Knopp on one small matrix for each token (manifold-constrained hyper-connections, arXiv:2512.24880)."""

from __future__ import annotations

from collections.abc import Sequence
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
        # Views are made once: hundreds of small steps cost mostly what each call costs.
        sums = torch.empty_like(planes[0])
        columns, rows = planes.unbind(0), planes.unbind(1)
        for step in range(iterations):
            if step:
                planes.div_(_sum(rows, sums).add_(epsilon)[:, None])
            planes.div_(_sum(columns, sums).add_(epsilon)[None])
        return planes.permute(2, 0, 1).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        with torch.enable_grad():
            logits = ctx.saved_tensors[0].detach().requires_grad_()
            found = differentiable(logits, ctx.iterations, ctx.epsilon)
            (to_logits,) = torch.autograd.grad(found, logits, gradient)
        return to_logits, None, None


def _sum(terms: Sequence[Tensor], out: Tensor) -> Tensor:
    """Ascending, in ``out``."""
    torch.add(terms[0], terms[1], out=out)
    for term in terms[2:]:
        out.add_(term)
    return out
