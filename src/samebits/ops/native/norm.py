"""RMS norm over rows that do not see each other."""

from __future__ import annotations

import torch
from torch import Tensor

from samebits.ops.precision import wide


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """See ``OpSet.rms_norm``."""
    values = x.contiguous().to(wide(x.dtype))
    scale = torch.rsqrt(row_mean(values * values) + epsilon)
    return (values * scale).to(weight.dtype) * weight


def row_mean(x: Tensor) -> Tensor:
    """Mean over the contiguous last dimension, which is kept.

    ATen sums each row by itself and in one order, save a row that is alone: a single output is summed in as many parts
    as there are threads (from 32,768 elements on).  So no row is ever alone.
    """
    if x.numel() == x.shape[-1]:
        return torch.stack((x, x)).mean(-1, keepdim=True)[0]
    return x.mean(-1, keepdim=True)
