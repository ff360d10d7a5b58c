"""The row-invariant operations, gathered."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from samebits.ops import elementwise
from samebits.ops.native import attention, norm
from samebits.ops.native.linear import Linear
from samebits.ops.native.logprobs import TokenLogprobs
from samebits.ops.native.query_tiles import POSITIONS, SPAN
from samebits.ops.native.sparse import NativeSparse
from samebits.ops.native.tiles import LANES, ROWS, by_lanes
from samebits.ops.opset import Batch

# torch types Function.apply as untyped; each use below says so.


class Native(NativeSparse):
    """Row-invariant: batch, position, packing, neighbours and storage alignment leave no trace in a row's bits."""

    name = "native"

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

    def embedding(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """See ``OpSet.embedding``: a copy of rows, exact by nature."""
        return functional.embedding(token_ids, table)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """See ``OpSet.add``: one rounding each, exact by nature."""
        return x + y

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """See ``OpSet.rms_norm``."""
        return norm.rms_norm(x, weight, epsilon)

    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        """See ``OpSet.swiglu``."""
        return by_lanes(functional.silu, gate) * up

    def rope(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """See ``OpSet.rope``: products and sums only, exact by nature."""
        return elementwise.rotate_halves(x, cos, sin)

    def attention(self, query: Tensor, keys: Tensor, values: Tensor, batch: Batch) -> Tensor:
        """See ``OpSet.attention``."""
        return attention.attention(query, keys, values, batch)

    def token_logprobs(self, logits: Tensor, token_ids: Tensor) -> Tensor:
        """See ``OpSet.token_logprobs``."""
        result: Tensor = TokenLogprobs.apply(logits, token_ids)  # type: ignore[no-untyped-call]  # torch's
        return result
