"""Attention over a window of tokens and over compressed entries, keys and values being the same row.

Three kinds by compression ratio: window only (0), overlapping windows with an indexer (4, "C4A"), windows side by side
with every complete entry visible (more, "C128A").  One softmax over [entries ascending, window tokens ascending], a
sink in its denominator; an entry is visible to the token that completes it, and may repeat what the window holds.
"""

from __future__ import annotations

import torch
from torch import Tensor

from samebits.models.ds4.compressor import compress
from samebits.models.ds4.config import OVERLAPPING
from samebits.models.ds4.formats import index_format, key_format
from samebits.models.ds4.indexer import choose
from samebits.models.ds4.step import Rows, Step
from samebits.ops.rows import rounded


def attend(step: Step, layer: int, x: Tensor, name: str) -> Tensor:
    """[T, W] to [T, W]; ``name`` begins the parameters."""
    config, ops, batch = step.config, step.ops, step.batch
    ratio = config.compress_ratios[layer]
    tables = step.rope(compressed=ratio > 0)
    rows = step.rows(x, layer, "attention")

    low_rank = step.norm(step.linear(rows, f"{name}.q_a_proj.weight"), f"{name}.q_a_norm.weight").to(x.dtype)
    low_rank_rows = step.rows(low_rank, layer, "query")
    query = step.linear(low_rank_rows, f"{name}.q_b_proj.weight")
    query = query.view(-1, config.num_attention_heads, config.head_dim)
    query = ops.rope_pairs(ops.normalise(query, None, config.rms_norm_eps), *tables).to(x.dtype)

    key = step.norm(step.linear(rows, f"{name}.kv_proj.weight"), f"{name}.kv_norm.weight")
    batch.store(layer, "window", _as_cached(step, ops.rope_pairs(key[:, None], *tables).squeeze(1), x.dtype))
    keys = batch.select(layer, "window", batch.sequences, step.window.tokens)
    visible = step.window.exists
    if ratio:
        entries, entries_visible = _entries(step, layer, rows, low_rank_rows, f"{name}.compressor")
        keys, visible = torch.cat((entries, keys), dim=1), torch.cat((entries_visible, visible), dim=1)

    mixed = ops.attend(query, keys, visible, step.weights[f"{name}.sinks"])
    cos, sin = tables
    mixed = ops.rope_pairs(mixed, cos, -sin).to(x.dtype)
    return _output(step, layer, mixed, name)


def _as_cached(step: Step, rows: Tensor, dtype: torch.dtype) -> Tensor:
    form = key_format(step.config)
    return rows.to(dtype) if form is None else rounded(rows, form)


def _entries(step: Step, layer: int, x: Rows, low_rank: Rows, name: str) -> tuple[Tensor, Tensor]:
    """Compressed keys: [T, entries, D], and which of them are visible."""
    batch, ratio = step.batch, step.config.compress_ratios[layer]
    made = compress(step, layer, x.plain, name, "state", ratio)
    batch.store(layer, "entries", _as_cached(step, made, x.plain.dtype), stride=ratio)
    if ratio == OVERLAPPING:
        chosen = choose(step, layer, x, low_rank, f"{name}.indexer", index_format(step.config))
        return batch.select(layer, "entries", batch.sequences, chosen), chosen >= 0
    entries = batch.gather(layer, "entries").index_select(0, batch.sequences)
    ready = torch.div(batch.positions + 1, ratio, rounding_mode="floor")
    return entries, torch.arange(entries.shape[1]) < ready[:, None]


def _output(step: Step, layer: int, mixed: Tensor, name: str) -> Tensor:
    """Grouped low-rank projection: each group of heads by its own matrix, then all together: [T, H, D] to [T, W]."""
    groups, tokens = step.config.o_groups, len(mixed)
    plan = step.ops.dispatch(torch.arange(groups).expand(tokens, groups), groups)
    rows = step.rows(mixed.reshape(tokens, groups, -1), layer, "groups")
    weight = step.matrix(f"{name}.o_a_proj.weight")
    if isinstance(weight, Tensor):
        weight = weight.view(groups, -1, weight.shape[-1])
    low_rank = plan.back(step.ops.grouped_linear(plan.slots(rows.quantised), weight, plan, mixed.dtype)).flatten(1)
    return step.linear(step.rows(low_rank, layer, "output"), f"{name}.o_b_proj.weight")
