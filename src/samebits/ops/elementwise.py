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
