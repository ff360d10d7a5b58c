"""Causal attention at fixed shapes: a query tile against all ``L`` key slots, in decode as in prefill.

Each batched product has matrices of one shape, ``[(H/G)·8, D]`` by ``[D, L]`` and ``[(H/G)·8, L]`` by ``[L, D]``;
only their number varies, and ``torch.bmm`` does not let that number touch a matrix.  The softmax runs over all ``L``
slots, those after the query's position at −∞: its sum has the same terms in the same places at every step.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from samebits.ops.native.query_tiles import POSITIONS, QueryTiles, cut
from samebits.ops.opset import Batch
from samebits.ops.precision import wide

TILES_AT_ONCE: Final = 64
"""Query tiles per batched product: bounds the copies of keys and the scores held in memory, decides no bits."""


def attention(query: Tensor, keys: Tensor, values: Tensor, batch: Batch) -> Tensor:
    """See ``OpSet.attention``.  Relies on ``gather``'s zeros after a sequence's end (0 · NaN would be NaN)."""
    result: Tensor = CausalAttention.apply(query, keys, values, batch)  # type: ignore[no-untyped-call]  # torch's
    return result


class CausalAttention(Function):
    """Tiles forward; sequence by sequence backward, at true lengths, from recomputed probabilities."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor, batch: Batch) -> Tensor:
        ctx.save_for_backward(query, keys, values)
        ctx.starts, ctx.offsets = batch.starts, batch.offsets
        tiles = cut(batch.starts, batch.offsets)
        out = query.new_empty((len(tiles.sequence), POSITIONS, *query.shape[1:]))
        for start in range(0, len(out), TILES_AT_ONCE):
            part = slice(start, start + TILES_AT_ONCE)
            out[part] = _attend(query, keys, values, tiles, part)
        return out.flatten(0, 1).index_select(0, tiles.places)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        query, keys, values = ctx.saved_tensors
        to_query = torch.zeros_like(query)
        to_keys, to_values = torch.zeros_like(keys), torch.zeros_like(values)
        for b, offset in enumerate(ctx.offsets):
            rows = slice(ctx.starts[b], ctx.starts[b + 1])
            slots = slice(0, offset + rows.stop - rows.start)
            to_query[rows], to_keys[b, slots], to_values[b, slots] = _sequence_backward(
                gradient[rows], query[rows], keys[b, slots], values[b, slots], offset
            )
        return to_query, to_keys, to_values, None


def _attend(query: Tensor, keys: Tensor, values: Tensor, tiles: QueryTiles, part: slice) -> Tensor:
    """Tiles ``part``: [n, POSITIONS, H, D]."""
    sequence, rows = tiles.sequence[part], tiles.rows[part]
    if tiles.one_each:
        keys, values = keys[part], values[part]
    else:
        keys, values = keys.index_select(0, sequence), values.index_select(0, sequence)
    n, slots, groups, size = keys.shape
    shared = query.shape[1] // groups
    left = query.index_select(0, rows.flatten()).view(n, POSITIONS, groups, shared, size)
    left = left.permute(0, 2, 3, 1, 4).reshape(n * groups, shared * POSITIONS, size)
    right = keys.permute(0, 2, 1, 3).reshape(n * groups, slots, size)
    scores = torch.bmm(left, right.transpose(1, 2)).to(wide(query.dtype)).mul_(size**-0.5)
    after = torch.arange(slots) > tiles.positions[part, None, None, :, None]
    scores.view(n, groups, shared, POSITIONS, slots).masked_fill_(after, -torch.inf)
    weights = torch.softmax(scores, dim=-1).to(values.dtype)
    mixed = torch.bmm(weights, values.permute(0, 2, 1, 3).reshape(n * groups, slots, size))
    return mixed.view(n, groups, shared, POSITIONS, size).permute(0, 3, 1, 2, 4).reshape(n, POSITIONS, -1, size)


def _sequence_backward(
    gradient: Tensor, query: Tensor, keys: Tensor, values: Tensor, offset: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients to query [t, H, D], keys and values [s, G, D] of one sequence of ``s`` = offset + t tokens."""
    t, _, size = query.shape
    s, groups, _ = keys.shape
    scale = size**-0.5

    def grouped(x: Tensor) -> Tensor:  # [t, H, D] to [G, (H/G)·t, D]
        return x.view(t, groups, -1, size).permute(1, 2, 0, 3).reshape(groups, -1, size)

    def packed(x: Tensor) -> Tensor:
        return x.view(groups, -1, t, size).permute(2, 0, 1, 3).reshape(t, -1, size)

    q, g = grouped(query), grouped(gradient.contiguous())
    k, v = keys.transpose(0, 1), values.transpose(0, 1)
    scores = torch.bmm(q, k.transpose(1, 2)).to(wide(query.dtype)).mul_(scale)
    after = torch.arange(s) > torch.arange(offset, offset + t)[:, None]
    scores.view(groups, -1, t, s).masked_fill_(after, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    to_weights = torch.bmm(g, v.transpose(1, 2)).to(weights.dtype)
    to_scores = weights * (to_weights - (to_weights * weights).sum(-1, keepdim=True))
    to_scores = to_scores.mul_(scale).to(query.dtype)
    to_keys = torch.bmm(to_scores.transpose(1, 2), q)
    to_values = torch.bmm(weights.to(g.dtype).transpose(1, 2), g)
    return packed(torch.bmm(to_scores, k)), to_keys.transpose(0, 1), to_values.transpose(0, 1)
