"""Row-invariant sparse operations: a product of one fixed shape for each token, sums in a stated order."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from samebits.ops import elementwise, fp8
from samebits.ops.fp8 import Fp8Format, Fp8Weight
from samebits.ops.native import experts, norm, streams
from samebits.ops.native.linear import Linear
from samebits.ops.native.products import one_each
from samebits.ops.native.tiles import ROWS, by_lanes
from samebits.ops.precision import wide
from samebits.ops.sparse import Dispatch


class NativeSparse:
    """The part of ``Native`` that sparse decoders use."""

    def describe_sparse(self) -> dict[str, str]:
        """What decides bits."""
        return {
            "attend": "one product for each query; scores and weights rounded to the input dtype, softmax in float32",
            "combine": "expert slots in order, float32, one cast",
            "experts": f"tiles of {ROWS} rows, zero-padded, one product each; nothing dropped",
            "fp8": "operands dequantised: ue8m0 exactly to bfloat16, float32 scales to float32; fp32 accumulation",
            "indexer": "one float32 product for each query, heads summed in order; stable: score, then lower position",
            "pool": "softmax and sum over the rows of a window, float32",
            "router": "stable: score, then lower expert",
            "streams": "one float32 product for each token; Sinkhorn sums ascending",
        }

    def inverse_rms(self, x: Tensor, epsilon: float) -> Tensor:
        """See ``SparseOps.inverse_rms``."""
        values = x.contiguous().to(wide(x.dtype))
        return torch.rsqrt(norm.row_mean(values * values) + epsilon)

    def normalise(self, x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
        """See ``SparseOps.normalise``."""
        values = x.to(wide(x.dtype)) * self.inverse_rms(x, epsilon)
        return values if weight is None else values * weight

    def rope_pairs(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """See ``SparseOps.rope_pairs``: products and sums only, exact by nature."""
        return elementwise.rotate_pairs(x, cos, sin)

    def sigmoid(self, x: Tensor) -> Tensor:
        """See ``SparseOps.sigmoid``."""
        return by_lanes(torch.sigmoid, x)

    def sqrt_softplus(self, x: Tensor) -> Tensor:
        """See ``SparseOps.sqrt_softplus``."""
        return by_lanes(functional.softplus, x).sqrt()

    def clamped_swiglu(self, gate: Tensor, up: Tensor, limit: float) -> Tensor:
        """See ``SparseOps.clamped_swiglu``."""
        dtype = wide(gate.dtype)
        gated = by_lanes(functional.silu, gate.to(dtype).clamp(max=limit))
        return (gated * up.to(dtype).clamp(-limit, limit)).to(gate.dtype)

    def sinkhorn(self, logits: Tensor, iterations: int, epsilon: float) -> Tensor:
        """See ``SparseOps.sinkhorn``."""
        return streams.sinkhorn(logits, iterations, epsilon)

    def mix(self, weights: Tensor, rows: Tensor) -> Tensor:
        """See ``SparseOps.mix``."""
        return one_each(weights, rows)

    def quantise(self, x: Tensor, form: Fp8Format) -> tuple[Tensor, Tensor]:
        """See ``SparseOps.quantise``."""
        return fp8.quantise(x, form)

    def fp8_linear(self, x: Tensor, weight: Fp8Weight, dtype: torch.dtype) -> Tensor:
        """See ``SparseOps.fp8_linear``."""
        result: Tensor = Linear.apply(x, fp8.straight_through(weight))  # type: ignore[no-untyped-call]  # torch's
        return result.to(dtype)

    def dispatch(self, routes: Tensor, experts_: int) -> Dispatch:
        """See ``SparseOps.dispatch``."""
        return experts.dispatch(routes, experts_)

    def grouped_linear(self, x: Tensor, weight: Tensor | Fp8Weight, plan: Dispatch, dtype: torch.dtype) -> Tensor:
        """See ``SparseOps.grouped_linear``."""
        matrices = weight if isinstance(weight, Tensor) else fp8.straight_through(weight)
        matrices = matrices.view(len(plan.counts), -1, matrices.shape[-1])
        return experts.grouped_linear(x, matrices, plan).to(dtype)

    def combine(self, rows: Tensor, weights: Tensor) -> Tensor:
        """See ``SparseOps.combine``."""
        return elementwise.weighted_sum(rows, weights)

    def attend(self, query: Tensor, keys: Tensor, visible: Tensor, sinks: Tensor) -> Tensor:
        """See ``SparseOps.attend``."""
        products = one_each(query, keys.transpose(1, 2))
        scores = products.to(wide(query.dtype)) * query.shape[-1] ** -0.5
        scores = scores.masked_fill(~visible[:, None], -torch.inf)
        sink = sinks[None, :, None].expand(len(query), -1, 1).to(scores.dtype)
        weights = torch.softmax(torch.cat((scores, sink), dim=-1), dim=-1)[..., :-1]
        return one_each(weights.to(query.dtype).contiguous(), keys)

    def pool(self, values: Tensor, gates: Tensor) -> Tensor:
        """See ``SparseOps.pool``."""
        weights = torch.softmax(gates.transpose(1, 2).contiguous(), dim=-1)
        return (values.transpose(1, 2) * weights).contiguous().sum(-1)

    def index_scores(self, query: Tensor, weights: Tensor, keys: Tensor) -> Tensor:
        """See ``SparseOps.index_scores``."""
        dtype = wide(query.dtype)
        products = one_each(query.to(dtype), keys.to(dtype).transpose(1, 2)).relu_()
        return elementwise.weighted_sum(products, weights)

    def ranked(self, scores: Tensor, count: int) -> Tensor:
        """See ``SparseOps.ranked``."""
        return torch.sort(scores, dim=-1, descending=True, stable=True).indices[:, :count]
