"""The measuring part of a run: phases in order, each done once and entered into the manifest.

``construct`` → ``load`` each arm → ``exclusions`` → ``sampler`` → aligned rounds with control rounds in between and the
probes after the first.  A resumed run starts its workers anew, brings each arm back to where it was, and goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from samebits.certify import exclusions, prepare, probes, sampler, statement
from samebits.certify.arm import ARMS, COMPARED, Arm, ArmName, construct, workers
from samebits.certify.clock import Clock
from samebits.certify.folder import RunFolder
from samebits.certify.order import Order
from samebits.certify.recorded import recorded_round, require_same
from samebits.certify.reporter import Reporter
from samebits.certify.round import RoundOutcome, Rows, refit, run_round, time_round
from samebits.certify.unchanged import Unchanged
from samebits.errors import MachineError
from samebits.hashing import sha256_json
from samebits.oracle import EvidenceWriter
from samebits.workload import Workload


def measure(order: Order, run: RunFolder, reporter: Reporter) -> None:
    """Walk through every phase that the manifest does not name yet.

    Raises:
        SamebitsError: as :func:`samebits.certify.run.start`; the run can be resumed afterwards.
    """
    recipe, row = order.recipe, order.row
    reporter.live(f"preparing the weights of {recipe.model.source}")
    prepared = prepare.model(recipe, run.path, order.launcher)
    model = Path(prepared["folder"])
    workload = Workload.open(recipe.workload, model)
    workload.check_fits(recipe.certification.refits + 1, recipe.engine.max_model_len)
    run.fresh_spool()
    evidence = EvidenceWriter(run.evidence, run.parts)
    evidence.discard_unfinished(run.manifest.phases)
    threads = max(recipe.engine.threads, recipe.actor.threads)
    with contextlib.ExitStack() as stack:
        reporter.live("starting engines and actors")
        names = COMPARED if recipe.baseline is None else ARMS
        clients = {
            name: stack.enter_context(workers(name, run.path, threads=threads, launcher=order.launcher))
            for name in names
        }
        arms = {name: construct(clients[name], name=name, recipe=recipe, row=row, model=model) for name in names}
        for arm in arms.values():
            reporter.line(_describe(arm))
        walk = _Walk(order, run, workload, evidence, arms, reporter)
        walk.once("construct", lambda: statement.facts({name: arms[name] for name in COMPARED}), prepared=prepared)
        for name in COMPARED:
            walk.load(name)
        if "baseline" in arms:
            refit(arms["baseline"], 0, run.exchange, Clock("baseline", -1), digests=False)
        walk.once("exclusions", lambda: {"refusals": exclusions.exercise(arms["aligned"], recipe, row, model)})
        walk.once("sampler", lambda: {"sampler": sampler.exercise(arms["aligned"])})
        walk.rounds()
        if row.stack is not None:
            # Last: by now everything that computes has been loaded.
            aligned = arms["aligned"]
            libraries = {"engine": aligned.engine.loaded(), "actor": aligned.actor.loaded()}
            walk.once("libraries", dict, libraries=libraries)


class _Walk:
    """Both arms, up and running, and how far they are."""

    def __init__(
        self,
        order: Order,
        run: RunFolder,
        workload: Workload,
        evidence: EvidenceWriter,
        arms: Mapping[ArmName, Arm],
        reporter: Reporter,
    ) -> None:
        self._certification = order.recipe.certification
        self._baseline = order.recipe.baseline
        self._baseline_steps = 0
        self._run = run
        self._workload = workload
        self._evidence = evidence
        self._arms = arms
        self._reporter = reporter
        self._unchanged = {name: Unchanged(arm) for name, arm in arms.items()}

    def once(self, phase: str, work: Callable[[], Rows], **found: Any) -> None:
        """Do ``work``, keep its rows, and enter ``phase`` with what it ``found``; or nothing, if that was done."""
        if not self._run.is_done(phase):
            self._reporter.live(phase)
            self._evidence.part(phase, work())
            self._run.finish(phase, **found)

    def load(self, name: ArmName) -> None:
        """Bring an arm to the policy version at which its finished rounds left it."""
        arm = self._arms[name]
        clock = Clock(name, -1)
        rows = refit(arm, 0, self._run.exchange, clock)
        self.once(f"{name}-load", lambda: {"refits": rows, "timings": clock.rows})
        steps = [phase for phase in self._run.manifest.phases.items() if phase[0].startswith(f"{name}-round-")]
        steps = [(phase, found) for phase, found in steps if found["stepped"]]
        for version, (phase, _) in enumerate(steps):
            # Steps are repeated from the recorded tokens: cheaper than checkpoints of masters and optimizer state, and
            # the digest below proves that the state is the same again (docs/adr/004).
            self._reporter.live(f"{name}: repeating step {version + 1} of {len(steps)}")
            recorded = recorded_round(self._run.parts, phase)
            replayed = arm.actor.replay_step(recorded.trajectories, recorded.rewards, version)
            require_same(phase, recorded, replayed)
        if steps:
            found = _weights_sha256(refit(arm, len(steps), self._run.exchange, clock))
            before = steps[-1][1]["weights_sha256"]
            if found != before:
                raise MachineError(
                    f"{self._run.path.name}: {name} weights of version {len(steps)}",
                    found=f"digest {found}",
                    accepted=f"{before}, as before the interruption",
                    next_step="The actor is not deterministic on this machine; start a new run.",
                )
            self._reporter.line(f"{name:<7} back at policy version {len(steps)}, same bits")

    def rounds(self) -> None:
        """All aligned rounds; control rounds are spread among them, so that both see the same machine."""
        last = self._certification.refits
        control_after = _spread(self._certification.control_rounds, last + 1)
        baseline_after = _spread(self._baseline.rounds, last) if self._baseline is not None else []
        for version in range(last + 1):
            self._round("aligned", version, is_last=version == last, is_scored=version in {0, last})
            if version == 0:
                self.once("aligned-probes", self._probe)
            if version in control_after:
                # Always with a step: every phase of an aligned step has its pair to be compared with.
                self._round("control", control_after.index(version), is_last=False, is_scored=True)
            if version in baseline_after:
                self._time_baseline(version)

    def _time_baseline(self, number: int) -> None:
        """The work of aligned round ``number`` on the fastest unaligned configuration; its bits are nobody's concern.

        A resumed run's baseline starts again from the initial weights: the same work, not the same policy.
        """
        phase = f"baseline-round-{number:03d}"
        if self._run.is_done(phase):
            return
        clock = time_round(
            self._arms["baseline"],
            self._workload.plan_round(number),
            version=self._baseline_steps,
            number=number,
            exchange=self._run.exchange,
            progress=lambda news: self._reporter.live(f"baseline round {number:>2}  {_news(news)}"),
        )
        self._baseline_steps += 1
        self._evidence.part(phase, {"timings": clock.rows})
        self._run.finish(phase)
        seconds = sum(row["nanoseconds"] for row in clock.rows) / 1e9
        self._reporter.line(f"baseline round {number:>2}    {seconds:.1f} s, timed only")

    def _probe(self) -> Rows:
        recorded = recorded_round(self._run.parts, _phase("aligned", 0))
        count = self._certification.probe_sequences
        shortest = sorted(range(len(recorded.trajectories)), key=lambda at: len(recorded.trajectories[at].token_ids))
        some = {at: recorded.trajectories[at] for at in sorted(shortest[:count])}
        return {"probes": probes.exercise(self._arms["aligned"], some, 1, self._reporter.live)}

    def _round(self, name: ArmName, version: int, *, is_last: bool, is_scored: bool) -> None:
        phase = _phase(name, version)
        if self._run.is_done(phase):
            return
        total = f"/{self._certification.refits}" if name == "aligned" else ""
        label = f"{name:<7} round {version:>2}{total:<3}"
        self._unchanged[name].check()
        outcome = run_round(
            self._arms[name],
            self._workload.plan_round(version),
            version=version,
            exchange=self._run.exchange,
            is_last=is_last,
            is_scored=is_scored,
            progress=lambda news: self._reporter.live(f"{label}  {_news(news)}"),
        )
        self._unchanged[name].check()
        self._evidence.part(phase, outcome.rows)
        self._run.finish(phase, stepped=not is_last, weights_sha256=_weights_sha256(outcome.rows["refits"]))
        self._reporter.line(f"{label}  {_summary(outcome)}")


def _phase(name: ArmName, version: int) -> str:
    return f"{name}-round-{version:03d}"


def _weights_sha256(refits: Sequence[Mapping[str, Any]]) -> str:
    return sha256_json({row["tensor"]: row["sent"] for row in refits})


def _spread(count: int, total: int) -> list[int]:
    """``count`` of ``total`` rounds, evenly, the first one among them."""
    count = min(count, total)
    return [index * total // count for index in range(count)]


def _news(news: Mapping[str, Any]) -> str:
    """A worker's progress note in words: ``step 14  tokens 79  tokens per second 16``."""
    return "  ".join(
        f"{name.replace('_', ' ')} {value:.0f}" if isinstance(value, float) else f"{name.replace('_', ' ')} {value}"
        for name, value in news.items()
    )


def _summary(outcome: RoundOutcome) -> str:
    seconds = outcome.seconds
    train = seconds["train_forward"] + seconds.get("step", 0)
    return (
        f"{outcome.tokens:>5} tokens  {outcome.mismatches:>5} differ  reward {outcome.reward_mean:.2f}  "
        f"rollout {seconds['rollout']:.1f} s ({outcome.tokens / seconds['rollout']:.0f} tok/s)  "
        f"recompute {seconds['recompute']:.1f} s  train {train:.1f} s  "
        f"refit {seconds.get('export', 0) + seconds.get('refit', 0):.1f} s"
    )


def _describe(arm: Arm) -> str:
    built = arm.engine_built
    return (
        f"{arm.name:<7} engine and actor up: op set {built.op_set}, {built.dtype}, "
        f"{built.parameters / 1e6:.1f} M parameters, {built.threads} threads each"
    )
