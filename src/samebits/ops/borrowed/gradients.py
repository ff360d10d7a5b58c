"""The borrowed operations with gradients.  A backward decides no logprob, so it is ordinary torch, made for speed."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence

from samebits.ops.borrowed.primitives import Primitives

LOGIT_ROWS: Final = 256
"""Rows whose softmax is held in fp32 at once."""


class Linear(Function):
    """``primitives.linear`` of one input by several weights; the backward is one product for each side."""

    @staticmethod
    def forward(ctx: Any, primitives: Primitives, x: Tensor, *weights: Tensor) -> Tensor:
        ctx.save_for_backward(x, *weights)
        return primitives.linear(x, weights)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        _, wants_x, *want = ctx.needs_input_grad
        stacked = weights[0] if len(weights) == 1 else torch.cat(weights)
        parts = torch.split(gradient, [len(weight) for weight in weights], dim=1)
        to_weights = [part.t() @ x if wanted else None for part, wanted in zip(parts, want, strict=True)]
        return None, gradient @ stacked if wants_x else None, *to_weights


class Attention(Function):
    """``primitives.attention``; the backward is torch's own attention on sequences padded to the longest.

    Padding comes after a sequence's end, where causality hides it, so that no mask is needed and torch's flash kernel
    takes the call.  Its own forward is run again for its softmax statistics.
    """

    @staticmethod
    def forward(
        ctx: Any, primitives: Primitives, query: Tensor, keys: Tensor, values: Tensor, starts: Sequence[int]
    ) -> Tensor:
        ctx.save_for_backward(query, keys, values)
        ctx.lengths = [end - start for start, end in itertools.pairwise(starts)]
        return primitives.attention(query, keys, values, starts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, Tensor, Tensor, None]:
        padded = [_padded(x, ctx.lengths).requires_grad_() for x in ctx.saved_tensors]
        with torch.enable_grad(), _flash(gradient):
            query, keys, values = padded
            mixed = scaled_dot_product_attention(query, keys, values, is_causal=True, enable_gqa=True)
            found = torch.autograd.grad(mixed, padded, _padded(gradient, ctx.lengths))
        to_query, to_keys, to_values = (_packed(x, ctx.lengths) for x in found)
        return None, to_query, to_keys, to_values, None


class TokenLogprobs(Function):
    """``primitives.token_logprobs``; the backward is ``(onehot − softmax) · gradient``, some rows at a time."""

    @staticmethod
    def forward(ctx: Any, primitives: Primitives, logits: Tensor, token_ids: Tensor) -> Tensor:
        ctx.save_for_backward(logits, token_ids)
        return primitives.token_logprobs(logits, token_ids)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        logits, token_ids = ctx.saved_tensors
        to_logits = torch.empty_like(logits)
        columns = torch.arange(logits.shape[1], device=logits.device)
        for start in range(0, len(logits), LOGIT_ROWS):
            part = slice(start, start + LOGIT_ROWS)
            rows = torch.softmax(logits[part].to(gradient.dtype), dim=-1).neg_()
            rows += columns == token_ids[part, None]  # a scatter has no one order on a GPU
            to_logits[part] = rows.mul_(gradient[part, None])
        return None, to_logits, None


def _padded(x: Tensor, lengths: list[int]) -> Tensor:
    """[T, H, D] to [B, H, longest, D], zeros after each sequence's end."""
    return pad_sequence(list(torch.split(x.detach(), lengths)), batch_first=True).transpose(1, 2)


def _packed(x: Tensor, lengths: list[int]) -> Tensor:
    """The way back."""
    return torch.cat([rows[:, :length].transpose(0, 1) for rows, length in zip(x, lengths, strict=True)])


def _flash(x: Tensor) -> contextlib.AbstractContextManager[None]:
    """On a GPU in half precision only the flash kernel will do: its backward has a deterministic form."""
    if x.is_cuda and x.dtype in {torch.bfloat16, torch.float16}:
        chosen: contextlib.AbstractContextManager[None] = sdpa_kernel(SDPBackend.FLASH_ATTENTION)
        return chosen
    return contextlib.nullcontext()
