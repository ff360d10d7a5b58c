"""Sinkhorn–Knopp in ordinary torch: the control arm's forward, and what the native one differentiates."""

from __future__ import annotations

import torch
from torch import Tensor


def sinkhorn(logits: Tensor, iterations: int, epsilon: float) -> Tensor:
    """[T, n, n]; see ``SparseOps.sinkhorn``."""
    found = torch.softmax(logits, dim=-1) + epsilon
    found = found / (found.sum(-2, keepdim=True) + epsilon)
    for _ in range(iterations - 1):
        found = found / (found.sum(-1, keepdim=True) + epsilon)
        found = found / (found.sum(-2, keepdim=True) + epsilon)
    return found
