"""Cache rows in FP8: how a key lies in a page, and the rounding that both sides apply before anybody reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from samebits.ops import fp8


class RowFormat(Protocol):
    """Bytes of a row; ``decode(encode(x))`` changes nothing once :func:`rounded` has been applied."""

    @property
    def bytes(self) -> int:
        """Of one row."""

    def encode(self, rows: Tensor) -> Tensor:
        """[N, width] to uint8 [N, bytes]."""

    def decode(self, rows: Tensor) -> Tensor:
        """uint8 [N, bytes] to bf16 [N, width]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fp8Rows:
    """``width - rope`` channels in E4M3 with one power-of-two scale per ``block``, then ``rope`` channels in bf16.

    As vLLM's ``fp8_ds_mla`` (448 + 64 channels, blocks of 64: 584 bytes): the E4M3 values, the bf16 ones, and the
    scales as E8M0 bytes, filled up to a multiple of 8.  With ``wide_scales`` each scale is an fp32 number, as in the
    indexer's key cache (128 channels in one block: 132 bytes).
    """

    width: int
    rope: int
    block: int
    wide_scales: bool = False

    @property
    def bytes(self) -> int:
        """Of one row."""
        return self._plain + 2 * self.rope + self._scale_bytes

    @property
    def _plain(self) -> int:
        return self.width - self.rope

    @property
    def _scale_bytes(self) -> int:
        count = self._plain // self.block
        return 4 * count if self.wide_scales else -(-count // 8) * 8

    def encode(self, rows: Tensor) -> Tensor:
        """[N, width] to uint8 [N, bytes]."""
        count = self._plain // self.block
        blocks = rows[:, : self._plain].float().reshape(len(rows), count, self.block)
        scales = fp8.scales_of(blocks.abs().amax(-1), "ue8m0")
        values = fp8.round_to(blocks, scales[..., None]).view(torch.uint8).view(len(rows), self._plain)
        tail = rows[:, self._plain :].to(torch.bfloat16).contiguous().view(torch.uint8)
        written = scales if self.wide_scales else scales.to(fp8.E8M0)
        scale_bytes = written.view(torch.uint8)
        unused = rows.new_zeros((len(rows), self._scale_bytes - scale_bytes.shape[1]), dtype=torch.uint8)
        return torch.cat((values, tail, scale_bytes, unused), dim=1)

    def decode(self, rows: Tensor) -> Tensor:
        """uint8 [N, bytes] to bf16 [N, width]; a row of zeros is zero."""
        count = self._plain // self.block
        at = self._plain + 2 * self.rope
        values = fp8.decode(rows[:, : self._plain].contiguous().view(fp8.E4M3), torch.bfloat16)
        tail = rows[:, self._plain : at].contiguous().view(torch.bfloat16)
        written = rows[:, at : at + count * (4 if self.wide_scales else 1)].contiguous()
        scales = written.view(torch.float32) if self.wide_scales else written.view(fp8.E8M0).float()
        plain = values.view(len(rows), count, self.block) * scales.to(torch.bfloat16)[..., None]
        return torch.cat((plain.view(len(rows), self._plain), tail), dim=1)


def rounded(rows: Tensor, form: RowFormat) -> Tensor:
    """[N, width] as a row of ``form`` reads back, bf16; the gradient passes straight through."""
    result: Tensor = _Rounded.apply(rows, form)  # type: ignore[no-untyped-call]  # torch's
    return result


class _Rounded(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, form: RowFormat) -> Tensor:
        ctx.dtype = rows.dtype
        return form.decode(form.encode(rows))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.to(ctx.dtype), None
