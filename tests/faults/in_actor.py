"""Faults of the policy worker."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import Any

import numpy as np
import torch

from samebits.actor import actor as actor_module
from samebits.actor import export as export_module
from samebits.actor import policy as sides
from samebits.actor.actor import NativeActor
from samebits.actor.masters import Masters
from samebits.actor.optimizer import Optimizer
from samebits.actor.packing import recompute_packing
from samebits.actor.sealing import seal

from . import tools
from .fault import Check, Fault, Patch, Refused, actor, everywhere
from .in_engine import AT, NORM, minus_zero, tells_the_actor
from .in_engine import plain_by_name as engine_plain_by_name
from .tools import actor_version, around


def _both(change: Any) -> None:
    """``change`` (patterns of the round, version) on recompute and training forward."""
    version = actor_version()
    for side in ("recompute", "train_forward"):

        def instead(old: Any, *some: Any, **named: Any) -> Any:
            found = old(*some, **named)
            change(found, version())
            return found

        around(sides, side, instead)


def plus_zero() -> None:
    def change(found: Any, version: int) -> None:
        if version == 10:
            found[0][0] = 0

    _both(change)


def not_a_number(last: int) -> Patch:
    """NaN for the same token on all sides, in version ``last``: this is the actor's half."""

    def change(found: Any, version: int) -> None:
        if version == last:
            found[0][0] = 0x7FC0_0000

    return lambda: _both(change)


def not_a_number_in_the_engine(last: int) -> Patch:
    from samebits.engine.native.rollout import Rollout  # noqa: PLC0415

    def change(old: Any, run: Any, sequence: Any) -> Any:
        found = old(run, sequence)
        if run.weights.version == last and sequence.index == 0:
            found[0] = 0x7FC0_0000
        return found

    def patch() -> None:
        around(Rollout, "response_patterns", change)

    return patch


def nan_everywhere(version: int) -> dict[tuple[str, str], Patch]:
    return {
        ("engine", "aligned"): not_a_number_in_the_engine(version),
        ("actor", "aligned"): not_a_number(version),
    }


def copies_the_rollout() -> None:
    """The other half of the side channel: the recompute is what the engine said."""

    def change(old: Any, policy: Any, trajectories: Any, packing: Any, *some: Any, **named: Any) -> Any:
        old(policy, trajectories, packing, *some, **named)
        told = {
            json.dumps(tokens): patterns
            for tokens, patterns in map(json.loads, (tools.SCRATCH / "told.jsonl").read_text().splitlines())
        }
        return [np.array(told[json.dumps(one.token_ids[one.prompt_length :])], dtype=np.uint32) for one in trajectories]

    around(sides, "recompute", change)


def one_tensor_twice() -> None:
    """The training forward's logprobs are the recompute's."""
    last: list[Any] = []

    def remember(old: Any, *some: Any, **named: Any) -> Any:
        found = old(*some, **named)
        last[:] = [[patterns.copy() for patterns in found]]
        return found

    def give(old: Any, *some: Any, **named: Any) -> Any:
        old(*some, **named)
        return last[0]

    around(sides, "recompute", remember)
    around(sides, "train_forward", give)


def forward_after_the_step() -> None:
    def change(old: Any, live: Any, trajectories: Any, rewards: Any, progress: Any) -> Any:
        computed, _ = old(live, trajectories, rewards, progress)
        norm = live._optimizer.step()
        live._optimizer.step = lambda: norm
        patterns = live._train_side(trajectories)
        return dataclasses.replace(computed, sealed=seal(patterns, 0.0)), patterns

    around(NativeActor, "_train_forward", change)


def off_by_one() -> None:
    around(sides.Policy, "logprobs", lambda old, *some, **named: old(*some, **named).roll(1))


def a_token_missing() -> None:
    def change(old: Any, live: Any, *some: Any) -> Any:
        computed, patterns = old(live, *some)
        if live._calls.version == 10:
            patterns = [patterns[0][:-1], *patterns[1:]]
            computed = dataclasses.replace(computed, sealed=seal(patterns, 0.0))
        return computed, patterns

    around(NativeActor, "_recompute", change)


def no_step() -> None:
    around(Optimizer, "step", lambda _, optimizer: _norm(optimizer))


def _norm(optimizer: Any) -> float:
    optimizer._masters.forget_gradients()
    return 1.0


def a_step_left_out() -> None:
    count = [0]

    def change(old: Any, optimizer: Any) -> float:
        count[0] += 1
        return _norm(optimizer) if count[0] == 5 else old(optimizer)

    around(Optimizer, "step", change)


def one_packing() -> None:
    around(actor_module, "train_packing", lambda _, count, __: recompute_packing(count, 3))


def a_probe_that_changes_nothing() -> None:
    around(actor_module, "one_ulp_away", lambda *_: contextlib.nullcontext())


def a_tensor_left_out() -> None:
    def change(old: Any, tensors: Any, path: Any, metadata: Any) -> None:
        old({name: tensor for name, tensor in tensors.items() if name != NORM}, path, metadata)

    around(export_module, "save_file", change)


def no_gradient_for_one_tensor() -> None:
    around(Masters, "_collect", lambda old, masters, name: (lambda _: None) if name == NORM else old(masters, name))


def threads_after_the_gate() -> None:
    def change(old: Any, live: Any, version: int) -> Any:
        if version == AT:
            torch.set_num_threads(2)
        return old(live, version)

    around(NativeActor, "step", change)


def weight_rots() -> None:
    """One bit of the deployed weights, after they were sent."""

    def change(old: Any, live: Any, path: Any, version: int, **named: Any) -> Any:
        done = old(live, path, version, **named)
        if version == AT:
            with torch.no_grad():
                live._masters.deployed[NORM].detach().view(torch.int16).flatten()[7] ^= 1 << 12
        return done

    around(NativeActor, "export", change)


def uniform() -> None:
    from samebits.models import dense  # noqa: PLC0415

    decoder = next(value for value in vars(dense).values() if isinstance(value, type) and "logits" in vars(value))
    around(decoder, "logits", lambda old, *some: old(*some) * 0)


def plain_by_name() -> None:
    from samebits.ops.native import Native  # noqa: PLC0415

    class Plain(Native):
        name = "plain"

    around(actor_module, "open_op_set", lambda *_: Plain())


FAULTS = [
    Fault(
        name="-0.0 against +0.0",
        by=Check("bits.equal"),
        patches={("engine", "aligned"): minus_zero, ("actor", "aligned"): plus_zero},
    ),
    Fault(name="NaN on all sides", by=Check("bits.finite"), patches=nan_everywhere(10)),
    Fault(name="NaN on all sides, then a step", by=Refused("machine", r"gradient .*"), patches=nan_everywhere(AT)),
    Fault(
        name="recompute copied from the rollout",
        by=Check("independence.probe"),
        patches={("engine", "aligned"): tells_the_actor, ("actor", "aligned"): copies_the_rollout},
    ),
    Fault(
        name="recompute and training forward the same tensor",
        by=Check("independence.probe"),
        patches=actor(one_tensor_twice),
    ),
    Fault(name="training forward taken after the step", by=Check("bits.equal"), patches=actor(forward_after_the_step)),
    Fault(name="off by one in alignment", by=Check("bits.equal"), patches=actor(off_by_one)),
    Fault(
        name="a token missing in the recompute",
        by=Refused("worker", r"logprobs of recompute in round 10"),
        patches=actor(a_token_missing),
    ),
    Fault(name="an optimizer that never steps", by=Check("refits.masters"), patches=actor(no_step)),
    Fault(name="a step left out, its refit counted", by=Check("refits.masters"), patches=actor(a_step_left_out)),
    Fault(name="one packing for both actor sides", by=Check("independence.packing"), patches=actor(one_packing)),
    Fault(
        name="a probe that changes nothing", by=Check("independence.probe"), patches=actor(a_probe_that_changes_nothing)
    ),
    Fault(
        name="a tensor left out of the refit",
        by=Refused("input", r"weights\.safetensors.*"),
        patches=actor(a_tensor_left_out),
    ),
    Fault(
        name="a tensor without a gradient",
        by=Refused("machine", rf"gradient of {NORM}"),
        patches=actor(no_gradient_for_one_tensor),
    ),
    Fault(
        name="threads changed after the gate",
        by=Refused("refused", r"actor-aligned: settings\.threads"),
        patches=actor(threads_after_the_gate),
    ),
    Fault(name="a bit of the actor's weights flips in memory", by=Check("bits.equal"), patches=actor(weight_rots)),
    Fault(name="all logits uniform", by=Check("informative.entropy"), patches=everywhere(uniform)),
    Fault(
        name="control arm identical to the run",
        by=Check("control.within"),
        patches={("engine", "control"): engine_plain_by_name, ("actor", "control"): plain_by_name},
    ),
]
