"""Raw logprobs of the sampled tokens without a [T, V] tensor in fp32."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from samebits.ops.native.tiles import ROWS
from samebits.ops.precision import wide


class TokenLogprobs(Function):
    """Log-softmax of each row at one coordinate, some rows at a time; the backward recomputes the softmax."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, token_ids: Tensor) -> Tensor:
        ctx.save_for_backward(logits, token_ids)
        out = logits.new_empty(len(logits), dtype=wide(logits.dtype))
        for start in range(0, len(logits), ROWS):
            part = slice(start, start + ROWS)
            rows = torch.log_softmax(logits[part].to(out.dtype), dim=-1)
            out[part] = rows.gather(-1, token_ids[part, None]).squeeze(-1)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        logits, token_ids = ctx.saved_tensors
        to_logits = torch.empty_like(logits)
        for start in range(0, len(logits), ROWS):
            part = slice(start, start + ROWS)
            rows = torch.softmax(logits[part].to(gradient.dtype), dim=-1).neg_()
            rows.scatter_add_(-1, token_ids[part, None], torch.ones_like(rows[:, :1]))
            to_logits[part] = rows.mul_(gradient[part, None])
        return to_logits, None
