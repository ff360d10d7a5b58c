"""What vLLM's native operations compute, in PyTorch: the same calls in the same order, differentiable as they are.

After vLLM 0.26.0 and 0.32.0, which agree: ``ir/ops/layernorm.py`` (``rms_norm``, ``fused_add_rms_norm``),
``layers/activation.py`` (``SiluAndMul.forward_native``), ``layers/rotary_embedding`` (``_compute_cos_sin_cache``,
``ApplyRotaryEmb.forward_static``).  On a GPU in batch-invariant mode the ``mean`` below is vLLM's own kernel, since
vLLM overrides it in ATen for the whole process.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor
from torch.nn import functional

from samebits.ops.precision import wide
from samebits.ops.rope import Rope


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """See ``OpSet.rms_norm``."""
    return _normed(x.to(wide(x.dtype)), weight, epsilon).to(x.dtype)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """See ``OpSet.add_rms_norm``: the norm is of the sum before it is rounded."""
    total = x.to(wide(x.dtype)) + residual.to(wide(x.dtype))
    return _normed(total, weight, epsilon).to(x.dtype), total.to(x.dtype)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """See ``OpSet.swiglu``: two roundings, after ``silu`` and after the product."""
    return functional.silu(gate) * up


@functools.lru_cache(maxsize=8)
def rope_table(rope: Rope, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The ``cos_sin_cache`` of vLLM: [positions, size] in the model's dtype, cosines before sines.

    Computed in fp32 where the model runs and for all positions at once, as the engine does: another device, or
    another place within a vector, has other last bits.
    """
    with torch.inference_mode(mode=False), torch.device(device):
        frequencies = 1.0 / (rope.theta ** (torch.arange(0, rope.size, 2, dtype=torch.float) / rope.size))
        angles = torch.einsum("i,j -> ij", torch.arange(rope.positions, dtype=torch.float), frequencies)
        return torch.cat((angles.cos(), angles.sin()), dim=-1).to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """See ``OpSet.rope``: in the model's dtype, each product and each sum rounded to it."""
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    first, second = torch.chunk(x, 2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def _normed(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    variance = x.pow(2).mean(dim=-1, keepdim=True)
    return (x * torch.rsqrt(variance + epsilon)).to(weight.dtype) * weight
