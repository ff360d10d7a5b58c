"""Smoke: the aligned pair answers a few problems, greedily and sampled; rollout is compared with recompute once.

No certificate comes of it: greedy decoding is not on-policy sampling, and one round is not ten refits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from samebits.actor.protocol import Tokens
from samebits.certify import prepare
from samebits.certify.arm import ActorClient, Arm, EngineClient, actor_parameters, engine_parameters, workers
from samebits.certify.clock import Clock
from samebits.certify.reporter import Reporter
from samebits.certify.round import actor_tokens, engine_request, refit
from samebits.engine.protocol import Generated, Request
from samebits.environment import Launcher
from samebits.pins import Row
from samebits.recipe import Recipe
from samebits.spool import reaping
from samebits.workload import RoundPlan, Workload

Mode = Literal["greedy", "sampled"]
MODES: Final[tuple[Mode, ...]] = ("greedy", "sampled")


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One answer in words."""

    mode: Mode
    question: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeOutcome:
    """One mode's comparison."""

    name: Mode
    tokens: int
    mismatches: int
    verdict: Literal["equal", "different", "vacuous"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Everything that smoke found."""

    answers: list[Answer]
    modes: list[ModeOutcome]

    @property
    def equal(self) -> bool:
        """Whether every mode compared something and nothing differed."""
        return all(mode.verdict == "equal" for mode in self.modes)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def run(recipe: Recipe, row: Row, reporter: Reporter, launcher: Launcher) -> Outcome:
    """Start the aligned pair, answer the first round of the workload in both modes, compare.

    Raises:
        SamebitsError: as a certification does.
    """
    with tempfile.TemporaryDirectory(prefix="samebits-smoke-") as name, reaping():
        scratch = Path(name)
        reporter.live("preparing the weights")
        model = Path(prepare.model(recipe, scratch, launcher)["folder"])
        plan = Workload.open(recipe.workload, model).plan_round(0)
        with workers("aligned", scratch, threads=recipe.engine.threads, launcher=launcher) as clients:
            reporter.live("starting engine and actor")
            arm = _construct(clients, recipe, row, model)
            refit(arm, 0, scratch / "weights.safetensors", Clock("aligned", -1))
            generated = {}
            for mode in MODES:
                reporter.live(f"{mode}: {len(plan.prompts)} answers")
                generated[mode] = arm.engine.generate(_requests(plan, mode), 0)
            reporter.live("recompute")
            return _compare(arm, plan, generated)


def _construct(clients: tuple[EngineClient, ActorClient], recipe: Recipe, row: Row, model: Path) -> Arm:
    """The aligned arm, but that its engine may decode greedily: no row's gate certifies that."""
    asked = engine_parameters("aligned", recipe, row, model)
    asked["settings"]["sampling_mode"] = "smoke"
    asked["gate"]["sampling_mode"] = ["smoke"]
    engine, actor = clients
    return Arm(
        name="aligned",
        engine=engine,
        actor=actor,
        engine_built=engine.construct(**asked),
        actor_built=actor.construct(**actor_parameters("aligned", recipe, row, model)),
    )


def _requests(plan: RoundPlan, mode: Mode) -> list[Request]:
    requests = [engine_request(prompt) for prompt in plan.prompts]
    if mode == "greedy":
        return [replace(request, sampling={**request.sampling, "temperature": 0.0}) for request in requests]
    return requests


def _compare(arm: Arm, plan: RoundPlan, generated: Mapping[Mode, Generated]) -> Outcome:
    """One recompute over the answers of all modes: an actor computes each policy version once."""
    tokens = {
        mode: [
            replace(tokens, request_id=f"{mode}-{tokens.request_id}")
            for tokens in actor_tokens(plan.prompts, one.trajectories)
        ]
        for mode, one in generated.items()
    }
    recomputed = arm.actor.recompute([one for some in tokens.values() for one in some], 0)
    rollout = {mode: arm.engine.reveal(one.sealed.commitment) for mode, one in generated.items()}
    recompute = iter(arm.actor.reveal(recomputed.sealed.commitment))
    outcome = Outcome(answers=[], modes=[])
    for mode, some in tokens.items():
        outcome.modes.append(_compared(mode, rollout[mode], [next(recompute) for _ in some]))
        outcome.answers.extend(_first_of_each_problem(plan, mode, some))
    return outcome


def _first_of_each_problem(plan: RoundPlan, mode: Mode, tokens: Sequence[Tokens]) -> list[Answer]:
    """One answer a problem: enough to hear the model speak."""
    first = {one.group: one for one in reversed(tokens)}
    return [
        Answer(
            mode=mode, question=problem.question, text=plan.text(first[group].token_ids[first[group].prompt_length :])
        )
        for group, problem in enumerate(plan.problems)
    ]


def _compared(mode: Mode, rollout: Sequence[Sequence[int]], recompute: Sequence[Sequence[int]]) -> ModeOutcome:
    left, right = (np.array([p for row in side for p in row], dtype=np.uint32) for side in (rollout, recompute))
    mismatches = int(np.count_nonzero(left != right))
    verdict: Literal["equal", "different", "vacuous"] = (
        "vacuous" if not left.size else "different" if mismatches else "equal"
    )
    return ModeOutcome(name=mode, tokens=int(left.size), mismatches=mismatches, verdict=verdict)
