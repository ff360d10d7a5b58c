"""Operations that every op set shares, because their arithmetic rounds each element once and has no order."""

from __future__ import annotations

import torch
from torch import Tensor

from samebits.ops.precision import wide


def rotate_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding, halves convention: x [T, H, D]; cos, sin fp32 [T, D/2]; fp32 inside, dtype of ``x`` out.

    Separate products and sums, never ``addcmul``: a fused multiply-add is used in ATen's vectors but not in its
    remainders.
    """
    first, second = x.to(wide(x.dtype)).chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding, neighbours convention, of the last channels: x [T, H, D]; cos, sin fp32 [T, R/2]; fp32 out."""
    size = 2 * cos.shape[-1]
    wider = x.to(wide(x.dtype))
    first, second = wider[..., -size::2], wider[..., -size + 1 :: 2]
    cos, sin = cos[:, None], sin[:, None]
    rotated = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)
    return torch.cat((wider[..., :-size], rotated), dim=-1)


def weighted_sum(rows: Tensor, weights: Tensor) -> Tensor:
    """``Σ_s weights[t, s] · rows[t, s]``: [T, S, N] and [T, S] to [T, N], fp32 inside, ``s`` ascending from +0.

    Each product and each sum is rounded by itself.  A sum that starts from +0 is never −0.
    """
    wider = rows.to(wide(rows.dtype)) * weights[..., None]
    total = torch.zeros_like(wider[:, 0])
    for slot in range(rows.shape[1]):
        total = total + wider[:, slot]
    return total.to(rows.dtype)
