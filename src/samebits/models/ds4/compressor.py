"""Compressors: every r tokens become one cache entry, by a softmax over their window, channel by channel.

Windows are absolute: entry j ends with token (j + 1)·r − 1, whatever the chunks in which tokens arrive.  What a window
needs is kept per token, in fp32, until the window has gone by.  For r = 4 windows overlap: an entry takes the first
half of the channels of the r tokens before it, and the second half of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from samebits.models.ds4.config import OVERLAPPING
from samebits.models.ds4.step import Step
from samebits.ops.precision import wide


def state_width(ratio: int, width: int) -> int:
    """Channels of a token's state, values and gates each."""
    return 2 * width if ratio == OVERLAPPING else width


def state_window(ratio: int) -> int:
    """Tokens of which state must be kept."""
    return 2 * ratio if ratio == OVERLAPPING else ratio


def compress(step: Step, layer: int, x: Tensor, name: str, cache: str, ratio: int) -> Tensor:
    """The entries that are completed in this forward, normed and rotated: fp32 [N, width].

    ``x`` [T, W] is the attention's input, ``name`` begins the parameters, ``cache`` names the state's cache.
    """
    ops, weights = step.ops, step.weights
    wider = x.to(wide(x.dtype))
    values = ops.linear(wider, weights[f"{name}.kv_proj.weight"].to(wider.dtype))
    gates = ops.linear(wider, weights[f"{name}.gate_proj.weight"].to(wider.dtype))
    gates = gates + weights[f"{name}.position_bias"].index_select(0, step.batch.positions % ratio)
    step.batch.store(layer, cache, torch.stack((values, gates), dim=1))

    sequences, entries, tokens = step.completed(ratio)
    overlaps = ratio == OVERLAPPING
    state = step.batch.select(layer, cache, sequences, tokens)
    if overlaps:
        width = state.shape[-1] // 2
        state = torch.cat((state[:, :ratio, :, :width], state[:, ratio:, :, width:]), dim=1)
    values, gates = state.unbind(2)
    pooled = ops.pool(values, gates.masked_fill((tokens < 0)[..., None], -torch.inf) if overlaps else gates)
    normed = step.norm(pooled, f"{name}.kv_norm.weight")
    return ops.rope_pairs(normed[:, None], *step.rope_at(entries * ratio, compressed=True)).squeeze(1)
