"""FP8 E4M3 as DeepSeek deploys it: 8-bit values, one scale per block, and what both sides make of them.

Weights [..., N, K] have a scale for each ``block × block`` square, activations [T, K] one for each ``1 × block`` of a
row, taken when they are used (*dynamic*).  A scale is ``max(amax, 1e-4) / 448``: as fp32 (``float32``, a true
division), or rounded *up* to a power of two (``ue8m0``; Micikevicius et al., arXiv:2209.05433; OCP Microscaling 1.0).

The product runs on dequantised operands.  Under ``ue8m0`` they are bf16 and exact, since E4M3 has four significant
bits and the scale none; under ``float32`` they are fp32, each rounded once.  Everything here is elementwise or a
maximum, so it has no order and both op sets share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable
from torch.utils.weak import WeakIdKeyDictionary

ScaleKind = Literal["float32", "ue8m0"]

E4M3: Final = torch.float8_e4m3fn
E8M0: Final = torch.float8_e8m0fnu
LARGEST: Final = 448.0
"""Of E4M3."""
SMALLEST_AMAX: Final = 1e-4

_DECODED: Final = torch.arange(256, dtype=torch.uint8).view(E4M3).to(torch.bfloat16)
"""Every E4M3 pattern's value, exact in bf16; a table is six times as fast as ATen's cast."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fp8Format:
    """How a model is quantised."""

    block: int
    scale: ScaleKind

    @property
    def compute(self) -> torch.dtype:
        """The dtype in which dequantised operands are multiplied."""
        return torch.bfloat16 if self.scale == "ue8m0" else torch.float32

    @property
    def scale_dtype(self) -> torch.dtype:
        """The dtype of a weight's scales in a file."""
        return E8M0 if self.scale == "ue8m0" else torch.float32


class Fp8Weight(NamedTuple):
    """A deployed weight: what a refit carries."""

    values: Tensor
    """E4M3 [..., N, K]."""
    scales: Tensor
    """fp32 or E8M0 [..., N / block, K / block]."""
    format: Fp8Format
    trained: Tensor | None = None
    """[..., N, K], where the gradient goes (straight through the rounding); its numbers are never read."""


def scales_of(amax: Tensor, kind: ScaleKind) -> Tensor:
    """fp32 scales of blocks whose largest magnitudes are ``amax`` (fp32)."""
    ratio = amax.clamp(min=SMALLEST_AMAX) / LARGEST
    return ratio if kind == "float32" else power_of_two_above(ratio)


def power_of_two_above(x: Tensor) -> Tensor:
    """``2^ceil(log2(x))`` of normal positive fp32 ``x``, from its bits: no ``log2`` whose last bit decides."""
    return ((x.view(torch.int32) + 0x7F_FFFF) >> 23 << 23).view(torch.float32)


def decode(values: Tensor, dtype: torch.dtype) -> Tensor:
    """E4M3 ``values`` in bf16 or a wider dtype, exactly."""
    flat = _DECODED.index_select(0, values.reshape(-1).view(torch.uint8).int())
    return flat.view(values.shape).to(dtype)


def round_to(x: Tensor, scales: Tensor) -> Tensor:
    """fp32 ``x`` over its scales, as E4M3: to nearest even, saturated (the cast alone would give NaN)."""
    return (x / scales).clamp_(-LARGEST, LARGEST).to(E4M3)


def quantise_weight(weight: Tensor, form: Fp8Format) -> tuple[Tensor, Tensor]:
    """``values`` and ``scales`` of an :class:`Fp8Weight` [..., N, K]; N and K are multiples of the block."""
    *outer, rows, columns = weight.shape
    block = form.block
    square = weight.detach().float().reshape(*outer, rows // block, block, columns // block, block)
    scales = scales_of(square.abs().amax((-3, -1)), form.scale)
    values = round_to(square, scales[..., :, None, :, None]).view(weight.shape)
    # A power of two is exact in E8M0, so this cast rounds nothing.
    return values, scales.to(form.scale_dtype)


def dequantise_weight(values: Tensor, scales: Tensor, form: Fp8Format, dtype: torch.dtype | None = None) -> Tensor:
    """[..., N, K] in ``dtype``, by default the one that products run in."""
    *outer, rows, columns = values.shape
    block, dtype = form.block, dtype or form.compute
    square = decode(values, dtype).view(*outer, rows // block, block, columns // block, block)
    return (square * scales.to(dtype)[..., :, None, :, None]).view(values.shape)


def deployed(weight: Fp8Weight) -> Tensor:
    """The weight as it is multiplied, kept until one of its tensors is written to.

    torch counts the writes to a tensor; a refit in place raises the count, and the next forward dequantises anew.
    """
    versions = (weight.values._version, weight.scales._version)  # noqa: SLF001  # torch has no public name for it
    kept = _kept.get(weight.values)
    if kept is None or kept[0] != versions:
        kept = (versions, dequantise_weight(weight.values, weight.scales, weight.format))
        _kept[weight.values] = kept
    matrix: Tensor = kept[1]
    return matrix


_kept: Any = WeakIdKeyDictionary()


def straight_through(weight: Fp8Weight) -> Tensor:
    """The deployed weight's numbers with the trained one's gradient."""
    matrix = deployed(weight)
    if weight.trained is None:
        return matrix
    result: Tensor = _StraightThrough.apply(matrix, weight.trained)  # type: ignore[no-untyped-call]  # torch's
    return result


class _StraightThrough(Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, trained: Tensor) -> Tensor:
        ctx.dtype = trained.dtype
        return matrix.view_as(matrix)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, gradient.to(ctx.dtype)


def quantise(x: Tensor, form: Fp8Format) -> tuple[Tensor, Tensor]:
    """Activations [..., K] quantised and dequantised in ``form.compute``, and their fp32 scales [..., K / block].

    The gradient passes straight through.
    """
    values, scales = _Quantise.apply(x, form)  # type: ignore[no-untyped-call]  # torch's
    return values, scales


class _Quantise(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, form: Fp8Format) -> tuple[Tensor, Tensor]:
        ctx.dtype = x.dtype
        blocks = x.reshape(*x.shape[:-1], x.shape[-1] // form.block, form.block).float()
        scales = scales_of(blocks.abs().amax(-1), form.scale)
        rounded = decode(round_to(blocks, scales[..., None]), form.compute)
        values = (rounded * scales[..., None].to(form.compute)).view(x.shape)
        ctx.mark_non_differentiable(scales)
        return values, scales

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_values: Tensor, _: Tensor) -> tuple[Tensor, None]:
        return to_values.to(ctx.dtype), None
