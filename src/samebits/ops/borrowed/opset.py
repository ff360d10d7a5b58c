"""The op set over an engine's primitives: dense decoders, whole sequences packed one after another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from samebits.ops.borrowed import formulas
from samebits.ops.borrowed.gradients import Attention, Linear, TokenLogprobs
from samebits.ops.borrowed.primitives import Primitives
from samebits.ops.opset import KEYS, VALUES, Batch
from samebits.ops.rope import Rope

# torch types Function.apply as untyped; each use below says so.


class Borrowed:
    """The dense part of ``OpSet``; its ``model_types`` keep sparse families away."""

    model_types: frozenset[str] | None = frozenset({"llama", "qwen3"})

    def __init__(self, name: str, primitives: Primitives) -> None:
        self.name = name
        self.device = primitives.device
        self.primitives = primitives

    def describe(self) -> dict[str, str]:
        """What decides bits."""
        return {
            **self.primitives.describe(),
            "elementwise": "torch on views of one fused product, as the engine's native SiluAndMul",
            "rms_norm": "float32 of the unrounded residual sum, one cast before the scale, as the engine's native ops",
            "rope": "the engine's cos_sin_cache, every product and sum in the model's dtype",
        }

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        """See ``OpSet.linear``."""
        result: Tensor = Linear.apply(self.primitives, x, weight)  # type: ignore[no-untyped-call]  # torch's
        return result

    def linears(self, x: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
        """See ``OpSet.linears``: one product, and views of it."""
        fused = Linear.apply(self.primitives, x, *weights)  # type: ignore[no-untyped-call]  # torch's
        return list(torch.split(fused, [len(weight) for weight in weights], dim=1))

    def embedding(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """See ``OpSet.embedding``: a copy of rows, exact by nature."""
        return functional.embedding(token_ids, table)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """See ``OpSet.add``."""
        return x + y

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """See ``OpSet.rms_norm``."""
        return formulas.rms_norm(x, weight, epsilon)

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        """See ``OpSet.add_rms_norm``: of the unrounded sum."""
        return formulas.add_rms_norm(x, residual, weight, epsilon)

    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        """See ``OpSet.swiglu``."""
        return formulas.swiglu(gate, up)

    def rope_tables(self, positions: Tensor, rope: Rope, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """See ``OpSet.rope_tables``: the engine's, in the model's dtype."""
        rows = formulas.rope_table(rope, dtype, self.device).index_select(0, positions)
        cos, sin = rows.chunk(2, dim=-1)
        return cos, sin

    def rope(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """See ``OpSet.rope``."""
        return formulas.rotate(x, cos, sin)

    def attention(self, query: Tensor, batch: Batch, layer: int) -> Tensor:
        """See ``OpSet.attention``.

        Raises:
            ValueError: a sequence began in an earlier forward: what is borrowed here computes whole ones.
        """
        if any(batch.offsets):
            raise ValueError(f"op set {self.name!r} computes whole sequences, not one that begins at {batch.offsets}")
        keys, values = batch.packed(layer, KEYS), batch.packed(layer, VALUES)
        result: Tensor = Attention.apply(self.primitives, query, keys, values, batch.starts)  # type: ignore[no-untyped-call]  # torch's
        return result

    def token_logprobs(self, logits: Tensor, token_ids: Tensor) -> Tensor:
        """See ``OpSet.token_logprobs``."""
        result: Tensor = TokenLogprobs.apply(self.primitives, logits, token_ids)  # type: ignore[no-untyped-call]  # torch's
        return result
