"""Sparse operations as a person would write them: whole batches, ``torch.topk``, each expert at its own row count."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor
from torch.nn import functional

from samebits.ops import elementwise, fp8
from samebits.ops.fp8 import Fp8Format, Fp8Weight
from samebits.ops.precision import wide
from samebits.ops.sinkhorn import sinkhorn
from samebits.ops.sparse import Dispatch


class PlainSparse:
    """The part of ``Plain`` that sparse decoders use."""

    def describe_sparse(self) -> dict[str, str]:
        """What decides bits."""
        return {
            "attend": "torch.bmm over the batch, softmax in float32",
            "combine": "torch.einsum in float32",
            "experts": "torch.nn.functional.linear on each expert's rows",
            "fp8": "operands dequantised, torch.nn.functional.linear on the whole batch",
            "indexer": "torch.einsum and torch.topk",
            "pool": "torch",
            "router": "torch.topk",
            "streams": "torch.einsum",
        }

    def inverse_rms(self, x: Tensor, epsilon: float) -> Tensor:
        """See ``SparseOps.inverse_rms``."""
        return torch.rsqrt(x.to(wide(x.dtype)).square().mean(-1, keepdim=True) + epsilon)

    def normalise(self, x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
        """See ``SparseOps.normalise``."""
        wider = x.to(wide(x.dtype))
        return functional.rms_norm(wider, x.shape[-1:], None if weight is None else weight.to(wider.dtype), epsilon)

    def rope_pairs(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """See ``SparseOps.rope_pairs``."""
        return elementwise.rotate_pairs(x, cos, sin)

    def sigmoid(self, x: Tensor) -> Tensor:
        """See ``SparseOps.sigmoid``."""
        return torch.sigmoid(x)

    def sqrt_softplus(self, x: Tensor) -> Tensor:
        """See ``SparseOps.sqrt_softplus``."""
        return functional.softplus(x).sqrt()

    def clamped_swiglu(self, gate: Tensor, up: Tensor, limit: float) -> Tensor:
        """See ``SparseOps.clamped_swiglu``."""
        dtype = wide(gate.dtype)
        gated = functional.silu(gate.to(dtype).clamp(max=limit))
        return (gated * up.to(dtype).clamp(-limit, limit)).to(gate.dtype)

    def sinkhorn(self, logits: Tensor, iterations: int, epsilon: float) -> Tensor:
        """See ``SparseOps.sinkhorn``."""
        return sinkhorn(logits, iterations, epsilon)

    def mix(self, weights: Tensor, rows: Tensor) -> Tensor:
        """See ``SparseOps.mix``."""
        return torch.einsum("tmk,tkw->tmw", weights, rows)

    def quantise(self, x: Tensor, form: Fp8Format) -> tuple[Tensor, Tensor]:
        """See ``SparseOps.quantise``."""
        return fp8.quantise(x, form)

    def fp8_linear(self, x: Tensor, weight: Fp8Weight, dtype: torch.dtype) -> Tensor:
        """See ``SparseOps.fp8_linear``."""
        return functional.linear(x, fp8.straight_through(weight)).to(dtype)

    def dispatch(self, routes: Tensor, experts: int) -> Dispatch:
        """See ``SparseOps.dispatch``: no place is unused."""
        flat = routes.reshape(-1)
        order = torch.sort(flat).indices
        counts = torch.bincount(flat, minlength=experts).tolist()
        places = torch.empty_like(order).index_copy_(0, order, torch.arange(len(flat)))
        return Dispatch(counts=counts, used=counts, source=order, places=places.view(routes.shape))

    def grouped_linear(self, x: Tensor, weight: Tensor | Fp8Weight, plan: Dispatch, dtype: torch.dtype) -> Tensor:
        """See ``SparseOps.grouped_linear``."""
        matrices = weight if isinstance(weight, Tensor) else fp8.straight_through(weight)
        matrices = matrices.view(len(plan.counts), -1, matrices.shape[-1])
        ends = list(itertools.accumulate(plan.counts, initial=0))
        parts = [
            functional.linear(x[start:end], matrix)
            for matrix, (start, end) in zip(matrices, itertools.pairwise(ends), strict=True)
        ]
        return torch.cat(parts).to(dtype)

    def combine(self, rows: Tensor, weights: Tensor) -> Tensor:
        """See ``SparseOps.combine``."""
        return torch.einsum("tsw,ts->tw", rows.to(wide(rows.dtype)), weights).to(rows.dtype)

    def attend(self, query: Tensor, keys: Tensor, visible: Tensor, sinks: Tensor) -> Tensor:
        """See ``SparseOps.attend``."""
        scores = torch.bmm(query, keys.transpose(1, 2)).to(wide(query.dtype)) * query.shape[-1] ** -0.5
        scores = scores.masked_fill(~visible[:, None], -torch.inf)
        sink = sinks[None, :, None].expand(len(query), -1, 1).to(scores.dtype)
        weights = torch.softmax(torch.cat((scores, sink), dim=-1), dim=-1)[..., :-1]
        return torch.bmm(weights.to(query.dtype), keys)

    def pool(self, values: Tensor, gates: Tensor) -> Tensor:
        """See ``SparseOps.pool``."""
        return (values * torch.softmax(gates, dim=1)).sum(1)

    def index_scores(self, query: Tensor, weights: Tensor, keys: Tensor) -> Tensor:
        """See ``SparseOps.index_scores``."""
        dtype = wide(query.dtype)
        products = torch.einsum("thd,tnd->thn", query.to(dtype), keys.to(dtype)).relu()
        return torch.einsum("thn,th->tn", products, weights)

    def ranked(self, scores: Tensor, count: int) -> Tensor:
        """See ``SparseOps.ranked``."""
        return torch.topk(scores, count, dim=-1).indices
