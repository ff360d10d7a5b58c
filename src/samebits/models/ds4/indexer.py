"""The indexer: which compressed entries a query attends to.

Selection has no derivative, so nothing here records gradients and its parameters are frozen.  The rule: score
descending, then lower entry first; entries are then used in ascending order.  Ties are common, since a sum of ReLUs is
often exactly 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from samebits.models.ds4.compressor import compress
from samebits.models.ds4.config import OVERLAPPING
from samebits.models.ds4.step import Rows, Step
from samebits.ops.rows import RowFormat, rounded


@torch.no_grad()
def choose(step: Step, layer: int, x: Rows, low_rank: Rows, name: str, form: RowFormat | None) -> Tensor:
    """Entries for each token, ascending, then −1 for absent ones: int64 [T, min(k, entries that fit)].

    ``x`` is the attention's input, ``low_rank`` its queries before their second projection, ``form`` how keys and
    queries are rounded.
    """
    config, ops, batch = step.config, step.ops, step.batch

    def as_cached(rows: Tensor) -> Tensor:
        return rows.to(x.plain.dtype) if form is None else rounded(rows, form)

    keys = compress(step, layer, x.plain, name, "index_state", OVERLAPPING)
    batch.store(layer, "index", as_cached(keys), stride=OVERLAPPING)
    query = step.linear(low_rank, f"{name}.q_b_proj.weight").view(-1, config.index_n_heads, config.index_head_dim)
    query = ops.rope_pairs(query, *step.rope(compressed=True))
    query = as_cached(query.flatten(0, 1)).view(query.shape)
    weights = ops.linear(x.plain, step.weights[f"{name}.scorer.weights_proj.weight"])
    weights = weights.to(step.weights[f"{name}.position_bias"].dtype)
    weights = weights * (config.index_head_dim**-0.5 * config.index_n_heads**-0.5)

    entries = batch.gather(layer, "index").index_select(0, batch.sequences)
    ready = torch.div(batch.positions + 1, OVERLAPPING, rounding_mode="floor")[:, None]
    fitting = entries.shape[1]
    scores = ops.index_scores(query, weights, entries)
    scores = scores.masked_fill(torch.arange(fitting) >= ready, -torch.inf)
    count = min(config.index_topk, fitting)
    ranked = ops.ranked(scores, count)
    chosen = ranked.masked_fill(torch.arange(count) >= ready, fitting).sort(dim=-1).values
    chosen = chosen.masked_fill(chosen == fitting, -1)
    if batch.observer is not None:
        past = ready.squeeze(1) > count
        batch.observer.decided(layer, "selection", chosen)
        batch.observer.happened(layer, "past_top_k", past)
        batch.observer.happened(layer, "indexer_tie", past & _tied(scores, ranked))
    return chosen


def _tied(scores: Tensor, ranked: Tensor) -> Tensor:
    """Whether the last chosen score is met again among those left out: bool [T]."""
    last = scores.gather(1, ranked[:, -1:])
    return (scores == last).sum(1) > (scores.gather(1, ranked) == last).sum(1)
