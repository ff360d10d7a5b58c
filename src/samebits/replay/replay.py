"""The replay: verify, choose, make the weights again, run round by round, compare."""

from __future__ import annotations

import secrets
import tempfile
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from samebits import pins, recipe
from samebits.certificate import evidence_folder
from samebits.certify import prepare, sampler
from samebits.certify.arm import Arm, construct, workers
from samebits.certify.clock import Clock
from samebits.certify.reporter import Reporter
from samebits.certify.round import check_answered, engine_request, refit
from samebits.engine.protocol import WholeSequence
from samebits.environment import Launcher, OwnEnvironment
from samebits.errors import InputError, InvalidCertificate
from samebits.recipe import Recipe
from samebits.replay.chance import Place, chances, sample
from samebits.replay.differences import of_patterns, of_values
from samebits.replay.machine import require_comparable
from samebits.replay.outcome import Outcome
from samebits.replay.recorded import Recorded, Round, flat
from samebits.spool import reaping
from samebits.verify import verify
from samebits.workload import RoundPlan, Workload


class Silent:
    """A reporter that nobody listens to."""

    def line(self, text: str) -> None:
        """Nothing."""

    def live(self, text: str) -> None:
        """Nothing."""


def replay(
    certificate: Path,
    key: Path,
    *,
    count: int,
    seed: int | None = None,
    rounds: int | None = None,
    row: pins.Row | None = None,
    launcher: Launcher | None = None,
    evidence: Path | None = None,
    reporter: Reporter | None = None,
) -> Outcome:
    """Execute again what the evidence of ``certificate`` records.

    ``count`` trajectories of all rounds are drawn by ``seed`` (a fresh one unless given) and generated again from
    prompt and seed.  Up to the last round that has one of them, every trajectory goes through recompute and training
    forward again, every optimizer step and every refit is repeated.  With ``rounds``, only so many rounds from the
    first on are looked at, and drawn from.  ``row`` replaces the certificate's own.

    Raises:
        InvalidCertificate: it does not verify, so there is nothing to execute.
        InputError: nothing to look at.
        MachineError: this machine is not comparable with the one that made it.
        SamebitsError: as a certification does.
    """
    began = time.perf_counter()
    report = verify(certificate, key, evidence_folder=evidence)
    if not report.valid or report.predicate is None or report.certificate_sha256 is None:
        raise InvalidCertificate(
            str(certificate),
            found="; ".join(report.reasons)[:2000],
            accepted="a certificate that verifies with this key",
            next_step="See: samebits verify",
        )
    folder = evidence or evidence_folder(certificate)
    asked = recipe.parse((folder / "recipe.toml").read_bytes(), source="recipe.toml")
    row = row or row_of(folder)
    launcher = launcher or OwnEnvironment()
    pins.require(row, launcher=launcher)
    require_comparable(report.predicate, row)
    recorded = Recorded(folder)
    everything = recorded.trajectories()
    looked_at = {number: many for number, many in everything.items() if rounds is None or number < rounds}
    if count < 1 or not looked_at:
        raise InputError(
            "-k" if count < 1 else "--rounds",
            found=count if count < 1 else rounds,
            accepted=f"1 or more; the certificate has {len(everything)} rounds",
            next_step="Choose another number.",
        )
    seed = secrets.randbits(32) if seed is None else seed
    chosen = sample(looked_at, count, seed)
    outcome = Outcome(
        certificate_sha256=report.certificate_sha256,
        seed=seed,
        same_kit=report.predicate["kit"]["sha256"] == pins.kit_sha256(),
        sampled=chosen,
        trajectories=sum(everything.values()),
        rounds=max(number for number, _ in chosen) + 1,
        rounds_in_all=len(everything),
        chances=chances(len(chosen), sum(looked_at.values())),
    )
    _execute(asked, row, launcher, recorded, outcome, reporter or Silent())
    outcome.seconds = time.perf_counter() - began
    return outcome


def row_of(folder: Path) -> pins.Row:
    """The kit's own row of the id in the evidence ``folder``, or the one that lies there if the kit has none.

    An older row file knows nothing of a later kit's settings, and its gate would refuse their defaults.

    Raises:
        InputError: no row there, or none that this kit can read.
    """
    content = (folder / "row.toml").read_bytes()
    try:
        name = tomllib.loads(content.decode()).get("id")
    except ValueError:
        name = None
    return pins.load(name)[0] if name in pins.known() else pins.parse(content, source="row.toml")


def _execute(
    asked: Recipe, row: pins.Row, launcher: Launcher, recorded: Recorded, outcome: Outcome, reporter: Reporter
) -> None:
    with tempfile.TemporaryDirectory(prefix="samebits-replay-") as name, reaping():
        scratch = Path(name)
        reporter.live("preparing the weights")
        model = Path(prepare.model(asked, scratch, launcher)["folder"])
        workload = Workload.open(asked.workload, model)
        threads = max(asked.engine.threads, asked.actor.threads)
        with workers("aligned", scratch, threads=threads, launcher=launcher) as clients:
            reporter.live("starting engine and actor")
            arm = construct(clients, name="aligned", recipe=asked, row=row, model=model)
            replaying = _Replaying(arm, scratch / "weights.safetensors", recorded, outcome)
            replaying.sampler()
            replaying.refit(0)
            for number in range(outcome.rounds):
                reporter.live(f"round {number} of {outcome.rounds - 1}")
                replaying.round(number, workload.plan_round(number))
                reporter.line(f"round {number:>2}  {len(outcome.differences)} differences so far")


class _Replaying:
    """Engine and actor of the aligned arm, and how far they are."""

    def __init__(self, arm: Arm, exchange: Path, recorded: Recorded, outcome: Outcome) -> None:
        self._arm = arm
        self._exchange = exchange
        self._recorded = recorded
        self._outcome = outcome

    def sampler(self) -> None:
        """The sampler's test again, unless the certificate's kit drew from other logits."""
        said, found = self._recorded.sampler(), sampler.exercise(self._arm)
        if [row["probability"] for row in said] != [row["probability"] for row in found]:
            return
        self._outcome.count("draws", sum(row["draws"] for row in found))
        counts = [{f"draws of token {row['token_id']}": row["draws"] for row in rows} for rows in (said, found)]
        self._note(of_values("sampler", *counts))

    def refit(self, version: int) -> None:
        """Weights of ``version`` into the engine; each digest is the recorded one."""
        found = flat(refit(self._arm, version, self._exchange, Clock("aligned", version)))
        self._outcome.count("refits", len(found))
        self._note(of_values(f"version {version}", self._recorded.refits(version), found))

    def round(self, number: int, plan: RoundPlan) -> None:
        """What the recipe makes of the round, the sampled rollouts, both actor sides of all, and the step."""
        recorded = self._recorded.round(number)
        self._note(of_values(f"round {number}", _said(recorded), _planned(plan, recorded)))
        self._rollouts(number, plan, recorded, [index for at, index in self._outcome.sampled if at == number])
        # As in the run, and in its order; a subset would be stepped elsewhere.
        everything = range(len(recorded.trajectories))
        computed = self._arm.actor.recompute(recorded.trajectories, number)
        self._compare("recompute", number, recorded, everything, self._arm.actor.reveal(computed.sealed.commitment))
        computed = self._arm.actor.train_forward(recorded.trajectories, recorded.rewards, number)
        self._compare("train", number, recorded, everything, self._arm.actor.reveal(computed.sealed.commitment))
        if number + 1 < self._outcome.rounds:
            stepped = self._arm.actor.step(number)
            advantages = {f"advantage of trajectory {at}": one for at, one in enumerate(stepped.advantages)}
            said = {f"advantage of trajectory {at}": row["advantage"] for at, row in enumerate(recorded.rows)}
            self._note(of_values(f"round {number}", said, advantages))
            self.refit(number + 1)

    def _rollouts(self, number: int, plan: RoundPlan, recorded: Round, chosen: list[int]) -> None:
        """Drawn again from prompt and seed, in other company, and prefilled whole."""
        if not chosen or len(plan.prompts) != len(recorded.rows):
            return
        prompts = [plan.prompts[index] for index in chosen]
        generated = self._arm.engine.generate([engine_request(prompt) for prompt in prompts], number)
        check_answered(prompts, generated.trajectories)
        said, found = {}, {}
        for index, trajectory in zip(chosen, generated.trajectories, strict=True):
            tokens = recorded.trajectories[index]
            name = f"tokens of trajectory {index}"
            said[name], found[name] = tokens.token_ids[tokens.prompt_length :], trajectory.token_ids
        self._note(of_values(f"round {number}", said, found))
        patterns = self._arm.engine.reveal(generated.sealed.commitment)
        if said == found:
            self._compare("rollout", number, recorded, chosen, patterns)
        whole = [
            WholeSequence(token_ids=one.token_ids, prompt_length=one.prompt_length)
            for one in (recorded.trajectories[index] for index in chosen)
        ]
        scored = self._arm.engine.score(whole, number)
        # Rounds that the run did not score have no prefill: there the rollout's patterns are what it must be.
        side = "rollout" if recorded.patterns["prefill"][chosen[0]][:1] == [None] else "prefill"
        self._compare(side, number, recorded, chosen, self._arm.engine.reveal(scored.commitment), counted_as="prefill")

    def _compare(
        self,
        side: str,
        number: int,
        recorded: Round,
        chosen: range | list[int],
        found: list[list[int]],
        *,
        counted_as: str | None = None,
    ) -> None:
        self._outcome.count(counted_as or side, sum(map(len, found)))
        patterns = recorded.patterns_of(side, chosen)
        self._note(of_patterns(counted_as or side, number, recorded.starts, patterns, found))

    def _note(self, found: Any) -> None:
        self._outcome.differences.extend(found)


def _said(recorded: Round) -> Mapping[str, Any]:
    said: dict[str, Any] = {"trajectories": len(recorded.rows)}
    for index, (row, tokens) in enumerate(zip(recorded.rows, recorded.trajectories, strict=True)):
        said[f"prompt of trajectory {index}"] = tokens.token_ids[: tokens.prompt_length]
        said |= {f"{name} of trajectory {index}": row[name] for name in ("seed", "group")}
        said[f"reward of trajectory {index}"] = float(row["reward"])
    return said


def _planned(plan: RoundPlan, recorded: Round) -> Mapping[str, Any]:
    """The same, from the recipe; rewards are those of the recorded responses."""
    planned: dict[str, Any] = {"trajectories": len(plan.prompts)}
    if len(plan.prompts) != len(recorded.rows):
        return {**_said(recorded), **planned}
    responses = [one.token_ids[one.prompt_length :] for one in recorded.trajectories]
    for index, (prompt, reward) in enumerate(zip(plan.prompts, plan.rewards(responses), strict=True)):
        planned[f"prompt of trajectory {index}"] = list(prompt.token_ids)
        planned |= {f"seed of trajectory {index}": str(prompt.seed), f"group of trajectory {index}": prompt.group}
        planned[f"reward of trajectory {index}"] = float(reward)
    return planned


__all__ = ["Place", "replay"]
