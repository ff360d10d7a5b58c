"""Manifold-constrained hyper-connections: n residual streams in place of one (Xie et al., arXiv:2512.24880).

All of it is fp32; the streams themselves are in the model's dtype, rounded once after each sublayer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from samebits.models.ds4.step import Step
from samebits.ops.precision import wide


class Connection(NamedTuple):
    """A sublayer's input, and how its output comes back into the streams."""

    x: Tensor
    """[T, W] in the model's dtype: the streams weighted and summed, stream 0 first, one cast."""
    streams: Tensor
    """fp32 [T, n, W]."""
    back: Tensor
    """fp32 [T, n, n + 1]: new stream j is the sum of old streams i times [j, i], then the output times [j, n]."""


def enter(step: Step, streams: Tensor, name: str) -> Connection:
    """``streams`` [T, n, W] into the sublayer whose parameters begin with ``name``."""
    ops, weights, config = step.ops, step.weights, step.config
    count = config.hc_mult
    wider = streams.to(wide(streams.dtype))
    mixes = _mixes(step, wider, f"{name}.fn")
    base, scale = weights[f"{name}.base"], weights[f"{name}.scale"]
    # One sigmoid for both: 2σ is exact from σ.
    gates = ops.sigmoid(mixes[:, : 2 * count] * scale[:2].repeat_interleave(count) + base[: 2 * count])
    before, after = gates[:, :count] + config.hc_eps, 2 * gates[:, count:]
    mixing = (mixes[:, 2 * count :] * scale[2] + base[2 * count :]).view(-1, count, count)
    mixing = ops.sinkhorn(mixing, config.hc_sinkhorn_iters, config.hc_eps)
    x = ops.mix(before[:, None], wider).squeeze(1).to(streams.dtype)
    return Connection(x, wider, torch.cat((mixing.transpose(1, 2), after[..., None]), dim=-1))


def leave(step: Step, connection: Connection, y: Tensor) -> Tensor:
    """The sublayer's output ``y`` [T, W] back into the streams: [T, n, W] in the dtype of ``y``."""
    rows = torch.cat((connection.streams, y.to(connection.streams.dtype)[:, None]), dim=1)
    return step.ops.mix(connection.back, rows).to(y.dtype)


def collapse(step: Step, streams: Tensor, name: str) -> Tensor:
    """The streams into one [T, W], before the final norm; ``name`` begins its parameters."""
    ops, weights = step.ops, step.weights
    wider = streams.to(wide(streams.dtype))
    gates = ops.sigmoid(_mixes(step, wider, f"{name}fn") * weights[f"{name}scale"] + weights[f"{name}base"])
    return ops.mix((gates + step.config.hc_eps)[:, None], wider).squeeze(1).to(streams.dtype)


def _mixes(step: Step, wider: Tensor, name: str) -> Tensor:
    """The flattened streams' product, divided by their RMS afterwards."""
    flat = wider.flatten(1)
    return step.ops.linear(flat, step.weights[name]) * step.ops.inverse_rms(flat, step.config.rms_norm_eps)
