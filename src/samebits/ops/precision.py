"""Which dtype an op computes in."""

from __future__ import annotations

import torch


def wide(dtype: torch.dtype) -> torch.dtype:
    """fp32 for everything up to fp32; fp64 stays fp64, so that gradients can be checked against finite differences."""
    return torch.promote_types(dtype, torch.float32)
