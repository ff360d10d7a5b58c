"""Ordinary torch: each op in the shape that the batch happens to have."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from samebits.ops import elementwise
from samebits.ops.opset import KEYS, VALUES, Batch
from samebits.ops.plain.sparse import PlainSparse
from samebits.ops.precision import wide
from samebits.ops.rope import Rope, exact_at


class Plain(PlainSparse):
    """Not row-invariant: matmuls at the batch's own shape, attention over each sequence's own length."""

    name = "plain"
    model_types: frozenset[str] | None = None

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)

    def describe(self) -> dict[str, str]:
        """What decides bits."""
        return {
            "attention": "scaled_dot_product_attention per sequence over its own length",
            "elementwise": "torch",
            "linear": "torch.nn.functional.linear on the whole batch",
            "log_softmax": "float32 over the whole row",
            "rms_norm": "float32, one cast before the scale",
            "rope": "float32, one cast after",
            **self.describe_sparse(),
        }

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        """See ``OpSet.linear``."""
        return functional.linear(x, weight)

    def linears(self, x: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
        """See ``OpSet.linears``: one after the other."""
        return [self.linear(x, weight) for weight in weights]

    def embedding(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """See ``OpSet.embedding``."""
        return functional.embedding(token_ids, table)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """See ``OpSet.add``."""
        return x + y

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """See ``OpSet.rms_norm``."""
        normed = functional.rms_norm(x.to(wide(x.dtype)), weight.shape, eps=epsilon)
        return normed.to(weight.dtype) * weight

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        """See ``OpSet.add_rms_norm``: of the rounded sum."""
        total = self.add(residual, x)
        return self.rms_norm(total, weight, epsilon), total

    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        """See ``OpSet.swiglu``."""
        return functional.silu(gate) * up

    def rope_tables(self, positions: Tensor, rope: Rope, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """See ``OpSet.rope_tables``: fp32, correctly rounded."""
        del dtype
        return exact_at(positions, rope)

    def rope(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """See ``OpSet.rope``."""
        return elementwise.rotate_halves(x, cos, sin)

    def attention(self, query: Tensor, batch: Batch, layer: int) -> Tensor:
        """See ``OpSet.attention``."""
        keys, values = batch.gather(layer, KEYS), batch.gather(layer, VALUES)
        parts = []
        for b, offset in enumerate(batch.offsets):
            own = query[batch.starts[b] : batch.starts[b + 1]]
            length = offset + len(own)
            seen = torch.ones(len(own), length, dtype=torch.bool, device=query.device) if offset else None
            mixed = functional.scaled_dot_product_attention(
                own.transpose(0, 1)[None],
                keys[b, :length].transpose(0, 1)[None],
                values[b, :length].transpose(0, 1)[None],
                attn_mask=None if seen is None else seen.tril(diagonal=offset),
                is_causal=seen is None,
                enable_gqa=True,
            )
            parts.append(mixed[0].transpose(0, 1))
        return torch.cat(parts)

    def token_logprobs(self, logits: Tensor, token_ids: Tensor) -> Tensor:
        """See ``OpSet.token_logprobs``."""
        rows = torch.log_softmax(logits.to(wide(logits.dtype)), dim=-1)
        return rows.gather(-1, token_ids[:, None]).squeeze(-1)
