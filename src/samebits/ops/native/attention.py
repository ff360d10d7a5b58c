"""Causal attention at fixed shapes: a query tile against its span of key slots, in decode as in prefill.

A batched product has matrices of one shape, ``[(H/G)·8, D]`` by ``[D, S]`` and ``[(H/G)·8, S]`` by ``[S, D]``; only
their number varies, and ``torch.bmm`` lets that touch no matrix.  ``S`` is the query's position rounded up to a whole
span: the query's own property, the same when it is decoded alone, prefilled in a chunk or trained in a pack, whatever
the number of slots that the cache has.  Slots after the query's position stand at −∞ in the softmax.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable
from torch.nn import functional

from samebits.ops.native.query_tiles import POSITIONS, QueryTiles, cut
from samebits.ops.opset import Batch
from samebits.ops.precision import wide

SLOTS_AT_ONCE: Final = 8192
"""Key slots of all tiles in one batched product: bounds the memory of keys and scores, decides no bits."""


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
        tiles = cut(batch.starts, batch.offsets, query.device)
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)
        out = query.new_empty((len(tiles.sequence), POSITIONS, *query.shape[1:]))
        for slots, part in tiles.parts(SLOTS_AT_ONCE):
            out[part] = _attend(query, _first(slots, keys), _first(slots, values), tiles, part)
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


def _first(slots: int, x: Tensor) -> Tensor:
    """The first ``slots`` of [B, G, L, D], with zeros where there are fewer."""
    short = slots - x.shape[2]
    return functional.pad(x, (0, 0, 0, short)) if short > 0 else x[:, :, :slots]


def _attend(query: Tensor, keys: Tensor, values: Tensor, tiles: QueryTiles, part: Tensor) -> Tensor:
    """Tiles ``part``, ``n`` of them, all of one span: [n, POSITIONS, H, D], from its keys and values [B, G, S, D]."""
    keys, values = (x.index_select(0, tiles.sequence[part]).contiguous() for x in (keys, values))
    n, groups, slots, size = keys.shape
    shared = query.shape[1] // groups

    left = query.index_select(0, tiles.rows[part].flatten()).view(n, POSITIONS, groups, shared, size)
    left = left.permute(0, 2, 3, 1, 4).reshape(n * groups, shared * POSITIONS, size)
    products = torch.bmm(left, keys.view(n * groups, slots, size).transpose(1, 2))

    # Places that no tile of this part uses (seven of eight in decode) are spared the softmax: they keep their products,
    # and their results are dropped.
    used = int(tiles.used[part].max())
    weights = products.view(n, groups, shared, POSITIONS, slots)[..., :used, :]
    scores = weights.to(wide(query.dtype), copy=True).mul_(size**-0.5)
    after = torch.arange(slots, device=query.device) > tiles.positions[part, None, None, :used, None]
    weights.copy_(torch.softmax(scores.masked_fill_(after, -torch.inf), dim=-1))

    mixed = torch.bmm(products, values.view(n * groups, slots, size))
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
    slots, positions = (torch.arange(*ends, device=query.device) for ends in ((s,), (offset, offset + t)))
    after = slots > positions[:, None]
    scores.view(groups, -1, t, s).masked_fill_(after, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    to_weights = torch.bmm(g, v.transpose(1, 2)).to(weights.dtype)
    to_scores = weights * (to_weights - (to_weights * weights).sum(-1, keepdim=True))
    to_scores = to_scores.mul_(scale).to(query.dtype)
    to_keys = torch.bmm(to_scores.transpose(1, 2), q)
    to_values = torch.bmm(weights.to(g.dtype).transpose(1, 2), g)
    return packed(torch.bmm(to_scores, k)), to_keys.transpose(0, 1), to_values.transpose(0, 1)
