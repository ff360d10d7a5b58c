"""Rotary position tables (Su et al., RoFormer, arXiv:2104.09864)."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Rope:
    """The rotation that a model asks for: ``size`` channels of each head, frequencies ``theta ** -(2i / size)``."""

    positions: int
    """As many as the model has; an engine's table holds all of them."""
    size: int
    theta: float


@functools.lru_cache(maxsize=8)
def exact_tables(rope: Rope, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """``(cos, sin)``, each fp32 [positions, size / 2]; row ``p`` belongs to position ``p``.

    Angles are computed in float64 on the CPU and cast once, wherever the model runs: a position's angle must not
    depend on the device, on how many positions a forward asks for, or on a vector library's fp32 ``cos``.
    """
    with torch.inference_mode(mode=False):  # the same tables may serve a forward that records gradients
        exponents = torch.arange(0, rope.size, 2, dtype=torch.float64) / rope.size
        angles = torch.outer(torch.arange(rope.positions, dtype=torch.float64), rope.theta**-exponents)
        return angles.cos().float().to(device), angles.sin().float().to(device)


def exact_at(positions: Tensor, rope: Rope) -> tuple[Tensor, Tensor]:
    """Rows of :func:`exact_tables` at int64 [T]: fp32 [T, size / 2] twice."""
    cos, sin = exact_tables(rope, positions.device)
    return cos[positions], sin[positions]
