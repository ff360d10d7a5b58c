"""Mixture of experts: a router, six of many experts a token, and one that all tokens share.

Scores are √softplus of fp32 logits.  The first layers look the experts up by token id; the others take the largest
scores plus bias, of equal ones the lower expert.  The bias chooses and does not weigh.
"""

from __future__ import annotations

import torch
from torch import Tensor

from samebits.models.ds4.step import Rows, Step
from samebits.ops.precision import wide
from samebits.ops.sparse import Dispatch


def mixture(step: Step, layer: int, x: Tensor, name: str) -> Tensor:
    """[T, W] to [T, W]: the shared expert's output plus the routed ones', each rounded once; ``name`` as elsewhere."""
    rows = step.rows(x, layer, "experts")
    routes, weights = _route(step, layer, x, f"{name}.gate")
    routed = _routed(step, layer, rows, routes, weights, f"{name}.experts")
    return step.ops.add(_shared(step, layer, rows, f"{name}.shared_experts"), routed)


def _route(step: Step, layer: int, x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Experts int64 [T, S] in slot order, and their weights fp32 [T, S]."""
    config, ops, weights = step.config, step.ops, step.weights
    wider = x.to(wide(x.dtype))
    scores = ops.sqrt_softplus(ops.linear(wider, weights[f"{name}.weight"].to(wider.dtype)))
    slots = config.num_experts_per_tok
    if layer < config.num_hash_layers:
        routes = weights[f"{name}.tid2eid"].index_select(0, step.batch.token_ids)
    else:
        ranking = scores.detach() + weights[f"{name}.e_score_correction_bias"]
        routes = ops.ranked(ranking, slots)
        if step.batch.observer is not None:
            last = ranking.gather(1, routes[:, -1:])
            tied = (ranking == last).sum(1) > (ranking.gather(1, routes) == last).sum(1)
            step.batch.observer.happened(layer, "router_tie", tied)
    chosen = scores.gather(1, routes)
    total = chosen[:, :1]
    for slot in range(1, slots):
        total = total + chosen[:, slot : slot + 1]
    shares = chosen / (total + 1e-20) * config.routed_scaling_factor
    if step.batch.observer is not None:
        step.batch.observer.decided(layer, "routes", routes)
        step.batch.observer.decided(layer, "route_weights", shares)
    return routes, shares


def _routed(step: Step, layer: int, x: Rows, routes: Tensor, weights: Tensor, name: str) -> Tensor:
    config, ops = step.config, step.ops
    plan = ops.dispatch(routes, config.n_routed_experts)
    both = ops.grouped_linear(plan.tokens(x.quantised), step.matrix(f"{name}.gate_up_proj"), plan, x.plain.dtype)
    gate, up = both.chunk(2, dim=-1)
    inner = ops.clamped_swiglu(gate, up, config.swiglu_limit)
    if config.fp8 is not None:
        inner, scales = ops.quantise(inner, config.fp8)
        if step.batch.observer is not None:
            step.batch.observer.decided(layer, "scales.experts_down", plan.back(scales))
    if step.batch.observer is not None:
        _observe(step, layer, plan, gate, up)
    made = ops.grouped_linear(inner, step.matrix(f"{name}.down_proj"), plan, x.plain.dtype)
    return ops.combine(plan.back(made), weights)


def _shared(step: Step, layer: int, x: Rows, name: str) -> Tensor:
    gate = step.linear(x, f"{name}.gate_proj.weight")
    up = step.linear(x, f"{name}.up_proj.weight")
    inner = step.ops.clamped_swiglu(gate, up, step.config.swiglu_limit)
    return step.linear(step.rows(inner, layer, "shared_down"), f"{name}.down_proj.weight")


def _observe(step: Step, layer: int, plan: Dispatch, gate: Tensor, up: Tensor) -> None:
    observer, limit = step.batch.observer, step.config.swiglu_limit
    if observer is None:
        return
    hits = (gate > limit).sum(1) + (up.abs() > limit).sum(1)
    observer.happened(layer, "clamp", plan.back(hits[:, None]).sum((1, 2)))
    slots = plan.source[plan.places.flatten()] == torch.arange(plan.places.numel())
    observer.happened(layer, "slots", slots.view(plan.places.shape).sum(1))
    observer.reached(layer, "tokens_per_expert", max(plan.used))
