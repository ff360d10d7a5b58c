"""Rotary position tables (Su et al., RoFormer, arXiv:2104.09864), one for engine and actor alike."""

from __future__ import annotations

import functools

import torch
from torch import Tensor


@functools.lru_cache(maxsize=8)
def rope_tables(
    max_positions: int, head_dim: int, theta: float, device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """``(cos, sin)``, each fp32 [max_positions, head_dim / 2]; row ``p`` belongs to position ``p``.

    Angles are computed in float64 on the CPU and cast once, wherever the model runs: a position's angle must not
    depend on the device, on how many positions a forward asks for, or on a vector library's fp32 ``cos``.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    positions = torch.arange(max_positions, dtype=torch.float64)
    angles = torch.outer(positions, theta**-exponents)
    return angles.cos().float().to(device), angles.sin().float().to(device)
