"""The operations that sparse decoders add: keys chosen per query, experts chosen per token, several residual streams.

Dimensions: T packed tokens, H heads, D head size, S keys of a query, E experts, n streams, W hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from samebits.ops.fp8 import Fp8Format, Fp8Weight


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatch:
    """Where each token's slots lie when rows are sorted by expert: nothing dropped, whatever the load.

    ``P`` places: the rows of expert 0, then of expert 1, …, each in token order, perhaps with unused ones after them.
    """

    counts: list[int]
    """Places of each expert; their sum is P."""
    used: list[int]
    """Those that hold a row."""
    source: Tensor
    """int64 [P]: flat slot ``t · S + s`` of each place; T · S where it is unused."""
    places: Tensor
    """int64 [T, S]: the place of each slot."""

    def tokens(self, x: Tensor) -> Tensor:
        """Each place's token: [T, K] to [P, K], zeros where unused."""
        slots = self.places.shape[1]
        return with_zero_row(x).index_select(0, torch.div(self.source, slots, rounding_mode="floor"))

    def slots(self, x: Tensor) -> Tensor:
        """Each place's slot: [T, S, K] to [P, K], zeros where unused."""
        return with_zero_row(x.flatten(0, 1)).index_select(0, self.source)

    def back(self, y: Tensor) -> Tensor:
        """[P, N] to [T, S, N]."""
        return y.index_select(0, self.places.flatten()).view(*self.places.shape, -1)


def with_zero_row(x: Tensor) -> Tensor:
    """[R, …] to [R + 1, …], the last row zero: what an absent index reads."""
    return torch.cat((x, x.new_zeros((1, *x.shape[1:]))))


class SparseOps(Protocol):
    """Part of ``OpSet``.  All but selections are differentiable."""

    def inverse_rms(self, x: Tensor, epsilon: float) -> Tensor:
        """``rsqrt(mean(x²) + epsilon)`` over the last dimension, which is kept: fp32 [..., 1]."""

    def normalise(self, x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
        """RMS norm over the last dimension, fp32 inside and out, scaled by ``weight`` if there is one."""

    def rope_pairs(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotates neighbours (x₀, x₁), … of the *last* R channels: x [T, H, D]; cos, sin fp32 [T, R/2]; fp32 out.

        The inverse is the same with ``-sin``.
        """

    def sigmoid(self, x: Tensor) -> Tensor:
        """Elementwise, fp32."""

    def sqrt_softplus(self, x: Tensor) -> Tensor:
        """``sqrt(log(1 + exp(x)))``, elementwise, fp32."""

    def clamped_swiglu(self, gate: Tensor, up: Tensor, limit: float) -> Tensor:
        """``silu(min(gate, limit)) * clamp(up, -limit, limit)``, fp32 inside, one cast to the dtype of ``gate``."""

    def sinkhorn(self, logits: Tensor, iterations: int, epsilon: float) -> Tensor:
        """fp32 [T, n, n] towards doubly stochastic ones, each summed in ascending order.

        Softmax over each row, plus epsilon; then columns are divided by (their sum + epsilon), and ``iterations`` − 1
        times rows, then columns.
        """

    def mix(self, weights: Tensor, rows: Tensor) -> Tensor:
        """A small product for each token, fp32: [T, M, K] by [T, K, W] to [T, M, W]."""

    def quantise(self, x: Tensor, form: Fp8Format) -> tuple[Tensor, Tensor]:
        """Activations [..., K] as FP8 leaves them, and their scales; see ``ops.fp8``."""

    def fp8_linear(self, x: Tensor, weight: Fp8Weight, dtype: torch.dtype) -> Tensor:
        """Quantised ``x`` [T, K] by the deployed weight [N, K]: fp32 accumulation over K, one cast to ``dtype``."""

    def dispatch(self, routes: Tensor, experts: int) -> Dispatch:
        """Rows sorted by expert, from int64 [T, S]."""

    def grouped_linear(self, x: Tensor, weight: Tensor | Fp8Weight, plan: Dispatch, dtype: torch.dtype) -> Tensor:
        """Each place by its expert's matrix: [P, K] by [E, N, K] to [P, N]; as ``linear`` or ``fp8_linear``."""

    def combine(self, rows: Tensor, weights: Tensor) -> Tensor:
        """``Σ_s weights[t, s] · rows[t, s]``, slots in order, fp32, one cast: [T, S, W] and fp32 [T, S] to [T, W]."""

    def attend(self, query: Tensor, keys: Tensor, visible: Tensor, sinks: Tensor) -> Tensor:
        """Each query over its own keys, which are its values too: [T, H, D], [T, S, D], bool [T, S] to [T, H, D].

        Scale D^-1/2.  ``sinks`` fp32 [H] enter the softmax's denominator and nothing else.  At least one is visible.
        """

    def pool(self, values: Tensor, gates: Tensor) -> Tensor:
        """Per channel, softmax of gates over R rows, then the weighted sum: fp32 [N, R, D] twice to [N, D]."""

    def index_scores(self, query: Tensor, weights: Tensor, keys: Tensor) -> Tensor:
        """``Σ_h weights[t, h] · relu(query[t, h] · keys[t, j])``, heads in order, fp32; never −0.

        [T, H, D], fp32 [T, H] and [T, N, D] to [T, N].
        """

    def ranked(self, scores: Tensor, count: int) -> Tensor:
        """Positions of the ``count`` largest of each row [T, N], largest first; of equal ones the lower position first.

        int64 [T, count].  The rule is ``native``'s; ``plain`` takes whichever ``torch.topk`` finds.
        """
