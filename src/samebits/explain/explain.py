"""The explanation of one run: read, restore, repeat, trace both sides, walk back, vary the shape."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samebits import pins, recipe
from samebits.actor.protocol import Side
from samebits.certify import folder, prepare
from samebits.certify.arm import Arm, ArmName, construct, engine_parameters, workers
from samebits.certify.recorded import RecordedRound
from samebits.certify.reporter import Reporter
from samebits.certify.round import engine_request
from samebits.engine.protocol import Request, WholeSequence
from samebits.environment import Launcher, OwnEnvironment
from samebits.errors import InputError
from samebits.explain import upstream
from samebits.explain.birth import find_birth
from samebits.explain.conditions import SIZES, in_company, of_reruns
from samebits.explain.differing import Differing, first_differing
from samebits.explain.explanation import Explanation
from samebits.explain.recorded import Recorded
from samebits.explain.restored import carry, restore
from samebits.recipe import Recipe
from samebits.spool import reaping
from samebits.traced import Target, Traced
from samebits.workload import Workload

ACTOR_SIDES: Mapping[str, Side] = {"recompute": "recompute", "train": "train"}


class Silent:
    """A reporter that nobody listens to."""

    def line(self, text: str) -> None:
        """Nothing."""

    def live(self, text: str) -> None:
        """Nothing."""


def explain(
    run: Path,
    *,
    arm: ArmName = "aligned",
    sizes: Sequence[int] = SIZES,
    script: Path | None = None,
    row: pins.Row | None = None,
    launcher: Launcher | None = None,
    reporter: Reporter | None = None,
) -> Explanation:
    """Trace the first differing token of ``arm`` in the run folder ``run`` back to the op that made the difference.

    ``sizes`` are the numbers of rows among which that op is computed again.  ``script`` receives one that shows the
    fault with the engine alone.  Nothing in the folder is changed.

    Raises:
        InputError: no run folder, no evidence in it, or no token that differs.
        MachineError: weights or steps do not come out as recorded, or the difference does not come back.
        SamebitsError: as a certification does.
    """
    began = time.perf_counter()
    reporter = reporter or Silent()
    manifest = folder.read_manifest(run)
    evidence = run / f"{folder.STEM}.evidence"
    token = first_differing(evidence, arm)
    asked, _ = recipe.load(evidence / "recipe.toml")
    row = row or pins.load(str(evidence / "row.toml"))[0]
    if asked.actor.kind != "native" and token.other in ACTOR_SIDES:
        raise InputError(
            f"actor.kind of {asked.id}",
            found=repr(asked.actor.kind),
            accepted="'native': the ops inside Megatron are not traced yet",
            next_step="Run the same recipe with the kit's own actor: the op set computes the same there.",
        )
    if script is not None:
        upstream.require_possible(asked.engine.kind, token.other)
    launcher = launcher or OwnEnvironment()
    pins.require(row, launcher=launcher)
    found = Explanation(run=run.name, same_kit=manifest.kit_sha256 == pins.kit_sha256(), token=token)
    with tempfile.TemporaryDirectory(prefix="samebits-explain-") as name, reaping():
        scratch = Path(name)
        reporter.live("preparing the weights")
        model = Path(prepare.model(asked, scratch, launcher)["folder"])
        requests = [engine_request(one) for one in Workload.open(asked.workload, model).plan_round(token.round).prompts]
        threads = max(asked.engine.threads, asked.actor.threads)
        with workers(arm, scratch, threads=threads, launcher=launcher) as clients:
            reporter.live("starting engine and actor")
            live = construct(clients, name=arm, recipe=asked, row=row, model=model)
            work = _Work(live, Recorded(evidence, arm), scratch / "weights.safetensors", token, requests, found)
            restore(live, token.round, work.recorded, work.exchange, reporter)
            parameters = engine_parameters(arm, asked, row, model)
            if _is_compiled(asked):
                work.as_written(parameters)
            work.trace(reporter)
            work.vary(sizes, reporter)
        if script is not None:
            upstream.write(script, found, parameters, requests, launcher=launcher, scratch=scratch)
    found.seconds = time.perf_counter() - began
    return found


def _is_compiled(asked: Recipe) -> bool:
    """Whether ops run inside CUDA graphs or compiled code, where no hook is called."""
    said = asked.engine.model_dump()
    is_eager = said.get("enforce_eager", True)
    return not is_eager and (said["cudagraph_mode"] != "NONE" or said["compilation_mode"] != 0)


@dataclass(slots=True)
class _Work:
    """Engine and actor of one arm at the policy version in question."""

    arm: Arm
    recorded: Recorded
    exchange: Path
    token: Differing
    requests: list[Request]
    found: Explanation

    @property
    def _then(self) -> RecordedRound:
        return self.recorded.round(self.token.round)

    @property
    def _target(self) -> Target:
        return Target(sequence=self.token.trajectory, token=self.token.position)

    def as_written(self, parameters: dict[str, Any]) -> None:
        """Repeat the rollout as it was, then construct the engine again without graphs and compilation, for tracing."""
        sealed = self.arm.engine.generate(self.requests, self.token.round).sealed
        is_same = sealed.commitment == self._then.commitments.get("rollout")
        self.found.notes.append(
            f"the repeated rollout gave {'the recorded' if is_same else 'OTHER'} bits; for tracing the engine was "
            "constructed again without CUDA graphs and compilation"
        )
        plain = {"cudagraph_mode": "NONE", "compilation_mode": 0}
        gate = parameters["gate"] | {name: [value] for name, value in plain.items()}
        self.arm.engine.construct(**{**parameters, "settings": parameters["settings"] | plain, "gate": gate})
        carry(self.arm, self.token.round, self.recorded, self.exchange)

    def trace(self, reporter: Reporter) -> None:
        """Both sides, and the walk back."""
        reporter.live("repeating the rollout, traced")
        left = self._left(self._target)
        reporter.live(f"{self.token.other}, traced")
        right = self._right(self._target)
        self.found.birth = find_birth(left, right, self.token.position)
        reporter.line(self.found.sentence)

    def vary(self, sizes: Sequence[int], reporter: Reporter) -> None:
        """The op in question under other shapes."""
        birth = self.found.birth
        if birth is None:
            return
        reporter.live(f"{birth.first.op} in other shapes")
        if birth.mixes:
            self.found.conditions = in_company(
                self.arm,
                birth,
                requests=self.requests,
                wholes=_wholes(self._then),
                target=self._target,
                version=self.token.round,
            )
            return
        again = replace(self._target, rerun=birth.first.op, row=birth.position, sizes=list(sizes))
        for how, traced in (("rollout's op alone", self._left(again)), (self._alone, self._right(again))):
            self.found.conditions += of_reruns(birth, how, traced)

    @property
    def _alone(self) -> str:
        return f"{self.token.other}'s op alone"

    def _left(self, target: Target) -> Traced:
        call = self.arm.engine.trace(self.requests, self.token.round, target)
        drawn = [one.token_ids for one in call.trajectories]
        self.found.tokens_as_recorded = drawn == [one.token_ids[one.prompt_length :] for one in self._then.trajectories]
        self._note("rollout", call.sealed.commitment)
        return call.traced

    def _right(self, target: Target) -> Traced:
        then, side = self._then, self.token.other
        sealed: Any
        if side in ACTOR_SIDES:
            traced_side = self.arm.actor.trace(ACTOR_SIDES[side], then.trajectories, self.token.round, target)
            traced, sealed = traced_side.traced, traced_side.sealed
        else:
            call = self.arm.engine.trace(_wholes(then), self.token.round, target)
            traced, sealed = call.traced, call.sealed
        self._note(side, sealed.commitment)
        return traced

    def _note(self, side: str, commitment: str) -> None:
        # The first time: computing an op again among other rows must not change anything, but is no repetition.
        self.found.as_recorded.setdefault(side, commitment == self._then.commitments.get(side))


def _wholes(then: RecordedRound) -> list[WholeSequence]:
    return [WholeSequence(token_ids=one.token_ids, prompt_length=one.prompt_length) for one in then.trajectories]
