"""The row-invariant operations, gathered."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from samebits.ops import elementwise
from samebits.ops.native import attention, norm
from samebits.ops.native.linear import Linear
from samebits.ops.native.logprobs import TokenLogprobs
from samebits.ops.native.query_tiles import POSITIONS, SPAN
from samebits.ops.native.sparse import NativeSparse
from samebits.ops.native.tiles import LANES, ROWS, by_lanes
from samebits.ops.opset import KEYS, VALUES, Batch
from samebits.ops.rope import Rope, exact_at

# torch types Function.apply as untyped; each use below says so.


class Native(NativeSparse):
    """Row-invariant: batch, position, packing, neighbours and storage alignment leave no trace in a row's bits."""

    name = "native"
    model_types: frozenset[str] | None = None

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)

    def describe(self) -> dict[str, str]:
        """What decides bits."""
        return {
            "attention": (
                f"tiles of {POSITIONS} queries, key slots up to the position in spans of {SPAN}; "
                "scores and weights rounded to the input dtype, softmax in float32"
            ),
            "elementwise": f"silu in whole vectors, multiples of {LANES} elements",
            "linear": f"tiles of {ROWS} rows, zero-padded",
            "log_softmax": "float32 over the whole row",
            "rms_norm": "float32, one cast before the scale",
            "rope": "float32, one cast after",
            **self.describe_sparse(),
        }

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        """See ``OpSet.linear``."""
        result: Tensor = Linear.apply(x, weight)  # type: ignore[no-untyped-call]  # torch's
        return result

    def linears(self, x: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
        """See ``OpSet.linears``: one after the other."""
        return [self.linear(x, weight) for weight in weights]

    def embedding(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """See ``OpSet.embedding``: a copy of rows, exact by nature."""
        return functional.embedding(token_ids, table)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """See ``OpSet.add``: one rounding each, exact by nature."""
        return x + y

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """See ``OpSet.rms_norm``."""
        return norm.rms_norm(x, weight, epsilon)

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        """See ``OpSet.add_rms_norm``: of the rounded sum."""
        total = self.add(residual, x)
        return self.rms_norm(total, weight, epsilon), total

    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        """See ``OpSet.swiglu``."""
        return by_lanes(functional.silu, gate) * up

    def rope_tables(self, positions: Tensor, rope: Rope, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """See ``OpSet.rope_tables``: fp32, correctly rounded."""
        del dtype
        return exact_at(positions, rope)

    def rope(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """See ``OpSet.rope``: products and sums only, exact by nature."""
        return elementwise.rotate_halves(x, cos, sin)

    def attention(self, query: Tensor, batch: Batch, layer: int) -> Tensor:
        """See ``OpSet.attention``."""
        return attention.attention(query, batch.gather(layer, KEYS), batch.gather(layer, VALUES), batch)

    def token_logprobs(self, logits: Tensor, token_ids: Tensor) -> Tensor:
        """See ``OpSet.token_logprobs``."""
        result: Tensor = TokenLogprobs.apply(logits, token_ids)  # type: ignore[no-untyped-call]  # torch's
        return result
