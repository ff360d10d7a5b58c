"""Faults of the parent: what it asks for, what it writes down, what it carries."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from samebits.certify import arm as arm_module
from samebits.certify import phases, probes
from samebits.certify import round as round_module
from samebits.certify.arm import ActorClient, EngineClient
from samebits.certify.ledger import Ledger
from samebits.workload import RoundPlan, Workload

from .fault import Check, Fault, Refused, Replayed
from .in_engine import AT
from .tools import around


def asked_with(**sampling: Any) -> Any:
    def patch() -> None:
        def instead(old: Any, prompt: Any) -> Any:
            request = old(prompt)
            return dataclasses.replace(request, sampling={**request.sampling, **sampling})

        around(round_module, "engine_request", instead)

    return patch


def nothing_asked() -> None:
    around(
        phases, "run_round", lambda old, arm, plan, **named: old(arm, dataclasses.replace(plan, prompts=[]), **named)
    )


def the_same_round_again() -> None:
    around(Workload, "plan_round", lambda old, workload, _: old(workload, 0))


def rewards_made_up() -> None:
    around(RoundPlan, "rewards", lambda _, __, responses: [float(at % 2) for at in range(len(responses))])


def two_tokens_swapped() -> None:
    def change(old: Any, prompts: Any, trajectories: Any) -> Any:
        found = old(prompts, trajectories)
        ids = found[0].token_ids
        start = found[0].prompt_length
        at = next((at for at in range(start, len(ids) - 1) if ids[at] != ids[at + 1]), None)
        if at is not None:
            ids[at], ids[at + 1] = ids[at + 1], ids[at]
        return found

    around(round_module, "actor_tokens", change)


def _marked(*, prompt: bool) -> Any:
    def patch() -> None:
        def change(old: Any, *some: Any) -> Any:
            rows = old(*some)
            first = next(at for at, row in enumerate(rows) if row["mask"])
            rows[first - prompt]["mask"] = prompt
            return rows

        around(round_module, "_token_rows", change)

    return patch


def revealed_early() -> None:
    """The rollout's logprobs are asked for before the actor has committed."""

    def commit(old: Any, ledger: Any, side: str, digest: str) -> None:
        old(ledger, side, digest)
        if side == "rollout":
            ledger._note("reveal", side, digest)

    def reveal(old: Any, ledger: Any, side: str, *some: Any) -> Any:
        before = len(ledger.rows)
        found = old(ledger, side, *some)
        if side == "rollout":
            del ledger.rows[before:]
        return found

    around(Ledger, "commit", commit)
    around(Ledger, "reveal", reveal)


def stepped_too_early() -> None:
    def change(old: Any, client: Any, trajectories: Any, rewards: Any, version: int) -> Any:
        client.step(version)
        return old(client, trajectories, rewards, version)

    around(ActorClient, "train_forward", change)


def a_layer_not_probed() -> None:
    around(probes, "exercise", lambda old, *some: [row for row in old(*some) if row["layer"] != 1])


def a_round_counted_twice() -> None:
    last: dict[str, Any] = {}

    def change(old: Any, arm: Any, plan: Any, *, version: int, **named: Any) -> Any:
        outcome = old(arm, plan, version=version, **named)
        if arm.name != "aligned":
            return outcome
        if version == 5:
            for table in ("tokens", "commitments", "trajectories"):
                outcome.rows[table] = [
                    {**row, "round": 5}
                    | ({name: 5 for name in row if "version" in name} if table == "trajectories" else {})
                    for row in last[table]
                ]
        last.update(outcome.rows)
        return outcome

    around(phases, "run_round", change)


def a_refit_counted_twice() -> None:
    """What came after step 5 is entered as version 6 too, and the real one is left out."""
    last: list[Any] = []

    def change(old: Any, *some: Any, **named: Any) -> Any:
        rows = old(*some, **named)
        if rows and rows[0]["arm"] == "aligned":
            if rows[0]["version"] == 6:
                return [{**row, "version": 6} for row in last]
            last[:] = rows
        return rows

    around(round_module, "refit", change)


def bytes_change_on_the_way() -> None:
    def change(old: Any, client: Any, path: Any, version: int, **named: Any) -> Any:
        if version == AT:
            data = bytearray(path.read_bytes())
            data[-9] ^= 4
            path.write_bytes(data)
        return old(client, path, version, **named)

    around(EngineClient, "refit", change)


def control_is_aligned() -> None:
    around(arm_module, "_op_set", lambda *_: "native")


def control_differs_in_more() -> None:
    def change(old: Any, name: str, *some: Any) -> Any:
        asked = old(name, *some)
        if name == "control":
            asked["settings"] = {**asked["settings"], "max_num_batched_tokens": 17}
        return asked

    around(arm_module, "engine_parameters", change)


def no_learning(text: str) -> str:
    return re.sub(r"learning_rate = \S+", "learning_rate = 0.0", text)


def old_logprobs_forced(text: str) -> str:
    return text.replace("[actor]", "[actor]\nforce_on_policy_ratio = true", 1)


def uncertified(text: str) -> str:
    return text.replace("[engine]", "[engine]\nenable_prefix_caching = true", 1)


FAULTS = [
    Fault(
        name="temperature 0.999",
        by=Refused("refused", r"request 'r0-p0-s0': temperature"),
        parent=asked_with(temperature=0.999),
    ),
    Fault(name="top-p 0.95", by=Refused("refused", r"request 'r0-p0-s0': top_p"), parent=asked_with(top_p=0.95)),
    Fault(
        name="a logit bias on one token",
        by=Refused("refused", r"request 'r0-p0-s0': logit_bias"),
        parent=asked_with(logit_bias={"11": 5.0}),
    ),
    Fault(name="an empty run", by=Refused("input", r"requests"), parent=nothing_asked),
    Fault(
        name="the first round's problems over and over", by=Replayed(), parent=the_same_round_again, needs_replay=True
    ),
    Fault(name="rewards made up", by=Replayed(), parent=rewards_made_up, needs_replay=True),
    Fault(name="two tokens swapped on the way to the actor", by=Check("bits.equal"), parent=two_tokens_swapped),
    Fault(name="a prompt token counted", by=Check("tokens.masked"), parent=_marked(prompt=True)),
    Fault(name="a response token not counted", by=Check("tokens.masked"), parent=_marked(prompt=False)),
    Fault(
        name="the rollout revealed before the actor committed", by=Check("independence.order"), parent=revealed_early
    ),
    Fault(name="a step before the training forward", by=Refused("refused", r"actor\.step"), parent=stepped_too_early),
    Fault(name="a layer that was not probed", by=Check("independence.probe"), parent=a_layer_not_probed),
    Fault(name="a round counted twice", by=Check("refits.consecutive"), parent=a_round_counted_twice),
    Fault(name="a refit counted twice", by=Check("refits.masters"), parent=a_refit_counted_twice),
    Fault(name="weights changed on the way", by=Check("refits.carried"), parent=bytes_change_on_the_way),
    Fault(name="control arm with the aligned op set", by=Check("control.switch"), parent=control_is_aligned),
    Fault(
        name="control arm that differs in one thing more", by=Check("control.switch"), parent=control_differs_in_more
    ),
    Fault(name="ten refits with a zero learning rate", by=Check("refits.masters"), recipe_text=no_learning),
    Fault(
        name="force_on_policy_ratio in the recipe",
        by=Refused("input", r".*force_on_policy_ratio"),
        recipe_text=old_logprobs_forced,
    ),
    Fault(
        name="an uncertified setting in the recipe",
        by=Refused("refused", r"engine\.enable_prefix_caching"),
        recipe_text=uncertified,
    ),
]
