"""Rule 8: the seven clauses of the RFC's WS2 contract, each with the count of how often it was put to the test.

The dense family has neither experts nor FP8, so some clauses do not apply to it, and say so.
"""

from __future__ import annotations

import json

from samebits.oracle.findings import Check, Faults, settle
from samebits.oracle.measured import Measured
from samebits.oracle.rules import decisions
from samebits.recipe import Recipe

Said = dict[str, str]


def check(measured: Measured, recipe: Recipe) -> list[Check]:
    """The clauses in the RFC's order, then what the scheduler did to exercise them."""
    return [
        _kernels(measured),
        _layout(measured),
        _context_parallel(measured, recipe),
        decisions.routing(measured, recipe),
        decisions.fp8_scales(measured, recipe),
        _log_softmax(measured, recipe),
        _logits_processors(measured, recipe),
        _at_least(measured, "scheduler.preemptions", "preemptions", recipe.certification.min_preemptions),
        _chunked_prefills(measured, recipe),
        *_running(measured, recipe),
        *decisions.family(measured, recipe),
    ]


def _kernels(measured: Measured) -> Check:
    """Engine and actor compute with the same operations from the same libraries, at many batch sizes."""
    engine, actor = _workers(measured)
    if not engine or not actor:
        return _not_run("contract.kernels", "the workers' own description is missing")
    faults = Faults()
    shared = [name for name in engine if name in actor and name.startswith("libraries.")]
    for name in ("op_set", "dtype", *shared):
        if engine.get(name) != actor.get(name):
            faults.add(f"{name}: the engine says {engine.get(name)}, the actor {actor.get(name)}")
    sizes = max(measured.counters.get(("aligned", "distinct_batch_sizes"), [0]))
    return settle(
        "contract.kernels",
        8,
        exercised=sizes if sizes > 1 else 0,
        faults=faults,
        passed=f"engine and actor share op set {engine.get('op_set')}; the engine's batch ran up to {sizes} sizes",
        vacuous="the engine's batch never changed its size",
        basis="attested",
    )


def _layout(measured: Measured) -> Check:
    """Packed, cached, chunked and recomputed layouts gave the same bits: counted by what was laid out differently."""
    moved = sum(measured.trajectories["aligned"].moved.values())
    sizes = sum(measured.counters.get(("aligned", "distinct_batch_sizes"), []))
    aligned = measured.tokens.arms["aligned"]
    faults = Faults()
    differing = sum(pair.mismatches + pair.non_finite for pair in aligned.pairs.values())
    if differing:
        faults.add(f"{differing} comparisons between layouts differ", differing)
    return settle(
        "contract.layout",
        8,
        exercised=moved,
        faults=faults,
        passed=f"{moved} trajectories had other neighbours in each packing; the engine ran {sizes} batch sizes",
        vacuous="no trajectory changed its neighbours",
    )


def _context_parallel(measured: Measured, recipe: Recipe) -> Check:
    faults = Faults()
    asked = recipe.engine.decode_context_parallel_size
    if asked != 1:
        faults.add(f"the recipe asks for decode_context_parallel_size {asked}")
    for worker, said in zip(("engine", "actor"), _workers(measured), strict=True):
        for name in ("settings.decode_context_parallel_size", "settings.context_parallel_size"):
            if said.get(name, "1") != "1":
                faults.add(f"the {worker} says {name.removeprefix('settings.')} is {said[name]}")
    rounds = len(measured.tokens.arms["aligned"].rounds)
    return settle(
        "contract.context-parallel",
        8,
        exercised=rounds,
        faults=faults,
        passed=f"context parallelism was off in all {rounds} rounds",
        vacuous="no round was run",
    )


def _log_softmax(measured: Measured, recipe: Recipe) -> Check:
    """Raw log-softmax on both sides, by one implementation."""
    engine, actor = _workers(measured)
    if not engine or not actor:
        return _not_run("contract.log-softmax", "the workers' own description is missing")
    faults = Faults()
    if recipe.engine.logprobs_mode != "raw_logprobs":
        faults.add(f"the recipe asks for logprobs_mode {recipe.engine.logprobs_mode!r}")
    said = engine.get("settings.logprobs_mode", json.dumps("raw_logprobs"))
    if said != json.dumps("raw_logprobs"):
        faults.add(f"the engine says logprobs_mode is {said}")
    if engine.get("op_set") != actor.get("op_set"):
        faults.add(f"the engine's log-softmax is {engine.get('op_set')}, the actor's {actor.get('op_set')}")
    return settle(
        "contract.log-softmax",
        8,
        exercised=measured.tokens.arms["aligned"].three.compared,
        faults=faults,
        passed=f"raw logprobs on all sides, by op set {engine.get('op_set')}",
        vacuous="no response token was compared",
        basis="attested",
    )


def _logits_processors(measured: Measured, recipe: Recipe) -> Check:
    del recipe
    found = measured.trajectories["aligned"]
    faults = Faults()
    if found.sampling:
        faults.add(str(found.sampling), found.sampling.count)
    return settle(
        "contract.logits-processors",
        8,
        exercised=found.count,
        faults=faults,
        passed=f"no processor touched the logits of any of {found.count} requests",
        vacuous="there are no requests",
    )


def _at_least(measured: Measured, name: str, counter: str, wanted: int) -> Check:
    words = counter.replace("_", " ")
    found = measured.counters.get(("aligned", counter))
    if found is None:
        return _not_run(name, f"the engine did not count its {words}")
    total = sum(found)
    return Check(
        name=name,
        rule=8,
        status="passed" if total >= wanted else "vacuous",
        exercised=total,
        detail=f"{total} {words} happened; the recipe asks for at least {wanted}",
        basis="attested",
    )


def _chunked_prefills(measured: Measured, recipe: Recipe) -> Check:
    name = "scheduler.chunked-prefills"
    if recipe.engine.enable_chunked_prefill:
        return _at_least(measured, name, "chunked_prefills", recipe.certification.min_chunked_prefills)
    detail = "chunked prefill is off"
    return Check(name=name, rule=8, status="not_applicable", exercised=0, detail=detail, basis="attested")


def _running(measured: Measured, recipe: Recipe) -> list[Check]:
    """Sequences side by side, where the recipe asks for a number (vllm#51187 began at 44)."""
    name, wanted = "scheduler.running", recipe.certification.min_running
    if not wanted:
        return []
    found = measured.counters.get(("aligned", "max_running"))
    if found is None:
        return [_not_run(name, "the engine did not count its running sequences")]
    most = max(found)
    return [
        Check(
            name=name,
            rule=8,
            status="passed" if most >= wanted else "vacuous",
            exercised=most,
            detail=f"up to {most} sequences ran side by side; the recipe asks for at least {wanted}",
            basis="attested",
        )
    ]


def _workers(measured: Measured) -> tuple[Said, Said]:
    return measured.facts.get(("aligned", "engine"), {}), measured.facts.get(("aligned", "actor"), {})


def _not_run(name: str, reason: str) -> Check:
    return Check(name=name, rule=8, status="not_run", exercised=0, detail=reason, basis="attested")
