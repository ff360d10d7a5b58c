"""Rotary tables: plain on window-only layers, another base and perhaps YaRN on compressed ones."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from samebits.models.ds4.config import Ds4Config, RopeScaling

Tables = tuple[Tensor, Tensor]
"""cos and sin, fp32 [positions, R/2] each."""


def tables(config: Ds4Config, *, compressed: bool) -> Tables:
    """Of all positions.  Angles are computed in float64 and cast once, whatever a forward asks for."""
    theta = config.compress_rope_theta if compressed else config.rope_theta
    scaling = config.rope_scaling if compressed else None
    yarn = None if scaling is None else tuple(scaling.model_dump().items())
    return _tables(config.max_position_embeddings, config.qk_rope_head_dim, theta, yarn)


@functools.lru_cache(maxsize=8)
def _tables(positions: int, size: int, theta: float, yarn: tuple[tuple[str, object], ...] | None) -> Tables:
    with torch.inference_mode(mode=False):
        frequencies = theta ** -(torch.arange(0, size, 2, dtype=torch.float64) / size)
        if yarn is not None:
            frequencies = _stretched(frequencies, size, theta, RopeScaling.model_validate(dict(yarn)))
        angles = torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)
        return angles.cos().float(), angles.sin().float()


def _stretched(frequencies: Tensor, size: int, theta: float, yarn: RopeScaling) -> Tensor:
    """YaRN: slow rotations are interpolated, fast ones kept, those between blended along a ramp."""

    def channel(rotations: float) -> float:
        turns = yarn.original_max_position_embeddings / (rotations * 2 * math.pi)
        return size * math.log(turns) / (2 * math.log(theta))

    low = max(math.floor(channel(yarn.beta_fast)), 0)
    high = min(math.ceil(channel(yarn.beta_slow)), size - 1)
    span = max(high - low, 0.001)
    ramp = ((torch.arange(size // 2, dtype=torch.float64) - low) / span).clamp(0, 1)
    return frequencies / yarn.factor * ramp + frequencies * (1 - ramp)
