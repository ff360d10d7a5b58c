"""One round: everything that happens under one policy version, in the order that makes the comparison mean something.

The parent never holds one side's patterns before every side has committed to its own, and the actor is never sent a
logprob at all (rule 3).  See ``docs/architecture.md`` for the seven steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from samebits.actor import protocol as actor
from samebits.certify.arm import Arm, Progress
from samebits.certify.clock import Clock
from samebits.certify.ledger import Ledger
from samebits.engine import protocol as engine
from samebits.errors import WorkerError
from samebits.observed import Observed
from samebits.workload import Prompt, RoundPlan

Rows = dict[str, list[dict[str, Any]]]

_COLUMNS: Final = ("rollout_bits", "recompute_bits", "train_bits", "prefill_bits")


@dataclass(kw_only=True, slots=True)
class RoundOutcome:
    """Evidence rows of one round, and what a person wants to read of it."""

    rows: Rows
    tokens: int
    mismatches: int
    reward_mean: float
    seconds: dict[str, float]
    texts: list[str] = field(default_factory=list)


def run_round(
    arm: Arm,
    plan: RoundPlan,
    *,
    version: int,
    exchange: Path,
    is_last: bool,
    is_scored: bool,
    progress: Progress | None = None,
) -> RoundOutcome:
    """Generate, recompute, train, reveal, score if ``is_scored``, and (unless ``is_last``) step and refit.

    ``exchange`` is the file through which the weights travel.

    Raises:
        WorkerError: a worker failed, answered other requests, or its patterns are not what it had committed to.
    """
    clock = Clock(arm.name, version)
    ledger = Ledger(arm.name, version)

    with clock.phase("rollout", "engine"):
        generated = arm.engine.generate([engine_request(prompt) for prompt in plan.prompts], version, progress)
    check_answered(plan.prompts, generated.trajectories)
    ledger.commit("rollout", generated.sealed.commitment)
    tokens = actor_tokens(plan.prompts, generated.trajectories)
    responses = [trajectory.token_ids for trajectory in generated.trajectories]
    with clock.phase("reward", "parent"):
        rewards = plan.rewards(responses)

    with clock.phase("recompute", "actor"):
        recomputed = arm.actor.recompute(tokens, version)
    ledger.commit("recompute", recomputed.sealed.commitment)
    with clock.phase("train_forward", "actor"):
        trained = arm.actor.train_forward(tokens, rewards, version)
    ledger.commit("train", trained.sealed.commitment)

    with clock.phase("oracle", "parent"):
        lengths = [len(response) for response in responses]
        patterns = {
            "rollout": ledger.reveal("rollout", arm.engine.reveal(generated.sealed.commitment), lengths),
            "recompute": ledger.reveal("recompute", arm.actor.reveal(recomputed.sealed.commitment), lengths),
            "train": ledger.reveal("train", arm.actor.reveal(trained.sealed.commitment), lengths),
        }
    if is_scored:
        with clock.phase("score", "engine"):
            scored = arm.engine.score([_whole(one) for one in tokens], version)
        ledger.commit("prefill", scored.commitment)
        patterns["prefill"] = ledger.reveal("prefill", arm.engine.reveal(scored.commitment), lengths)

    refits: list[dict[str, Any]] = []
    advantages = ["0"] * len(tokens)
    if not is_last:
        with clock.phase("step", "actor"):
            stepped = arm.actor.step(version)
        advantages = stepped.advantages
        refits = refit(arm, version + 1, exchange, clock)

    with clock.phase("oracle", "parent"):
        rows: Rows = {
            "tokens": _token_rows(arm.name, version, tokens, patterns),
            "trajectories": _trajectory_rows(
                arm.name,
                version,
                plan.prompts,
                generated,
                recomputed,
                trained,
                rewards,
                advantages,
            ),
            "commitments": ledger.rows,
            "refits": refits,
            "counters": _counter_rows(arm.name, version, generated.counters),
            **_observed_rows(
                arm.name,
                version,
                {"rollout": generated.observed, "recompute": recomputed.observed, "train": trained.observed},
            ),
        }
        mismatches = _count_mismatches(patterns)
    rows["timings"] = clock.rows
    return RoundOutcome(
        rows=rows,
        tokens=sum(map(len, responses)),
        mismatches=mismatches,
        reward_mean=sum(rewards) / len(rewards),
        seconds={row["phase"]: clock.seconds(row["phase"]) for row in clock.rows},
        texts=[plan.text(response) for response in responses],
    )


def time_round(
    arm: Arm,
    plan: RoundPlan,
    *,
    version: int,
    number: int,
    exchange: Path,
    progress: Progress | None = None,
) -> Clock:
    """The phases of a round with a step, timed as round ``number``: nothing is revealed, compared or digested."""
    clock = Clock(arm.name, number)
    with clock.phase("rollout", "engine"):
        generated = arm.engine.generate([engine_request(prompt) for prompt in plan.prompts], version, progress)
    tokens = actor_tokens(plan.prompts, generated.trajectories)
    with clock.phase("reward", "parent"):
        rewards = plan.rewards([trajectory.token_ids for trajectory in generated.trajectories])
    with clock.phase("recompute", "actor"):
        arm.actor.recompute(tokens, version)
    with clock.phase("train_forward", "actor"):
        arm.actor.train_forward(tokens, rewards, version)
    with clock.phase("step", "actor"):
        arm.actor.step(version)
    refit(arm, version + 1, exchange, clock, digests=False)
    return clock


def refit(arm: Arm, version: int, exchange: Path, clock: Clock, *, digests: bool = True) -> list[dict[str, Any]]:
    """Carry policy ``version`` from the actor to the engine; rows of the ``refits`` table, one per tensor.

    Without ``digests`` nothing is verified, and there are no rows: what an unwatched step costs.
    Equality of the digests is judged by the oracle from these rows, not here: a difference is a result.
    """
    with clock.phase("export", "actor"):
        exported = arm.actor.export(exchange, version, digests=digests)
    with clock.phase("refit", "engine"):
        refitted = arm.engine.refit(exchange, version, digests=digests)
    names = sorted({*exported.master, *exported.deployed, *refitted.arrived, *refitted.loaded})
    return [
        {
            "arm": arm.name,
            "version": version,
            "tensor": name,
            "master": exported.master.get(name, ""),
            "sent": exported.deployed.get(name, ""),
            "arrived": refitted.arrived.get(name, ""),
            "loaded": refitted.loaded.get(name, ""),
            "frozen": exported.frozen.get(name, ""),
        }
        for name in names
    ]


def engine_request(prompt: Prompt) -> engine.Request:
    """``prompt`` as the engine's protocol has it; which problem it belongs to is not the engine's business."""
    return engine.Request(
        request_id=prompt.request_id,
        prompt_token_ids=list(prompt.token_ids),
        max_tokens=prompt.max_tokens,
        seed=prompt.seed,
        stop_token_ids=list(prompt.stop_token_ids),
        sampling=prompt.sampling,
        arrival_step=prompt.arrival_step,
    )


def actor_tokens(prompts: Sequence[Prompt], trajectories: Sequence[engine.Trajectory]) -> list[actor.Tokens]:
    """All that the actor learns of a rollout: token ids, where the response starts, and the group."""
    return [
        actor.Tokens(
            request_id=prompt.request_id,
            token_ids=[*prompt.token_ids, *trajectory.token_ids],
            prompt_length=len(prompt.token_ids),
            group=prompt.group,
        )
        for prompt, trajectory in zip(prompts, trajectories, strict=True)
    ]


def check_answered(prompts: Sequence[Prompt], trajectories: Sequence[engine.Trajectory]) -> None:
    """That every request was answered, once and in order.

    Raises:
        WorkerError: the engine lost one, made one up or gave them in another order.
    """
    asked, answered = ([one.request_id for one in some] for some in (prompts, trajectories))
    if asked != answered:
        at = next((at for at, (one, other) in enumerate(zip(asked, answered, strict=False)) if one != other), None)
        at = min(len(asked), len(answered)) if at is None else at
        raise WorkerError(
            "trajectories of the rollout",
            found=f"{len(answered)}, number {at} is {answered[at] if at < len(answered) else 'missing'!r}",
            accepted=f"{len(asked)}, one per request in order; number {at} "
            + (f"is {asked[at]!r}" if at < len(asked) else "does not exist"),
            next_step="The engine lost or mixed up requests; its log may say why.",
        )


def _whole(one: actor.Tokens) -> engine.WholeSequence:
    return engine.WholeSequence(token_ids=one.token_ids, prompt_length=one.prompt_length)


def _token_rows(
    arm: str,
    version: int,
    tokens: Sequence[actor.Tokens],
    patterns: Mapping[str, Sequence[Sequence[int]]],
) -> list[dict[str, Any]]:
    """A row per token; a prompt token has no patterns, and a side that was not computed has none at all."""
    rows = []
    for index, one in enumerate(tokens):
        for position, token_id in enumerate(one.token_ids):
            place = position - one.prompt_length
            row: dict[str, Any] = dict.fromkeys(_COLUMNS)
            if place >= 0:
                row |= {f"{side}_bits": rows_of[index][place] for side, rows_of in patterns.items()}
            rows.append(
                {
                    "arm": arm,
                    "round": version,
                    "trajectory": index,
                    "position": position,
                    "token_id": token_id,
                    "mask": place >= 0,
                    **row,
                },
            )
    return rows


def _trajectory_rows(
    arm: str,
    version: int,
    prompts: Sequence[Prompt],
    generated: engine.Generated,
    recomputed: actor.Computed,
    trained: actor.Computed,
    rewards: Sequence[float],
    advantages: Sequence[str],
) -> list[dict[str, Any]]:
    return [
        {
            "arm": arm,
            "round": version,
            "trajectory": index,
            "group": prompt.group,
            "prompt_tokens": len(prompt.token_ids),
            "response_tokens": len(trajectory.token_ids),
            "finish_reason": trajectory.finish_reason,
            "seed": str(prompt.seed),
            "weight_version_start": trajectory.weight_version_start,
            "weight_version_end": trajectory.weight_version_end,
            "trainer_version": version,
            "recompute_pack": recomputed.packs[index],
            "train_pack": trained.packs[index],
            "sampling": json.dumps(dict(prompt.sampling), sort_keys=True),
            "reward": repr(float(rewards[index])),
            "advantage": advantages[index],
        }
        for index, (prompt, trajectory) in enumerate(zip(prompts, generated.trajectories, strict=True))
    ]


def _counter_rows(arm: str, version: int, counters: engine.Counters) -> list[dict[str, Any]]:
    return [{"arm": arm, "round": version, "counter": name, "value": value} for name, value in asdict(counters).items()]


def _observed_rows(arm: str, version: int, sides: Mapping[str, Observed]) -> Rows:
    """Rows of the ``decisions`` and ``events`` tables."""
    decisions, events = [], []
    for side, observed in sides.items():
        where = {"arm": arm, "round": version, "side": side}
        decisions += [{**where, **asdict(decision)} for decision in observed.decisions]
        for kind, found in (("count", observed.counts), ("level", observed.levels)):
            events += [{**where, **asdict(event), "kind": kind} for event in found]
    return {"decisions": decisions, "events": events}


def _count_mismatches(patterns: Mapping[str, Sequence[Sequence[int]]]) -> int:
    """For the progress line only; the oracle counts again from the evidence."""
    rollout, recompute, train = (
        np.array([pattern for row in patterns[side] for pattern in row], dtype=np.uint32)
        for side in ("rollout", "recompute", "train")
    )
    return int(np.count_nonzero((rollout != recompute) | (recompute != train)))
