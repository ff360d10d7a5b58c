"""What the oracle finds: a verdict, its reasons, and every number behind them.

``Findings.to_dict()`` *is* the ``findings`` object of a certificate: JSON without floats, integers below 2^53, the same
bytes whenever the same evidence is judged again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from samebits import bits

Verdict = Literal["passed", "failed", "vacuous", "over_budget", "refused"]
Status = Literal["passed", "failed", "vacuous", "not_applicable", "not_run"]
Basis = Literal["derived", "attested"]
"""*derived*: recomputed from what was recorded. *attested*: the run's word for something that no record can show."""


TOLD: Final = 3

BUDGET: Final = "overhead.budget"
"""The one check whose failure says nothing about exactness."""


class Faults:
    """Everything that is wrong with one thing: all of it counted, the first few told."""

    def __init__(self, told: int = TOLD) -> None:
        self.count = 0
        self._told = told
        self._texts: list[str] = []

    def add(self, text: str, count: int = 1) -> None:
        """``count`` faults, of which ``text`` describes the first."""
        self.count += count
        if len(self._texts) < self._told:
            self._texts.append(text)

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        more = self.count - len(self._texts)
        return "; ".join(self._texts) + (f"; and {more} more" if more > 0 else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One named check of one rule of the oracle (docs/architecture.md lists the rules)."""

    name: str
    rule: int
    status: Status
    exercised: int
    detail: str
    basis: Basis = "derived"

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "rule": self.rule,
            "status": self.status,
            "exercised": self.exercised,
            "detail": self.detail,
            "basis": self.basis,
        }


def settle(
    name: str, rule: int, *, exercised: int, faults: Faults, passed: str, vacuous: str, basis: Basis = "derived"
) -> Check:
    """The usual check: failed by any fault, else vacuous if nothing was exercised, else passed."""
    if faults:
        return Check(name=name, rule=rule, status="failed", exercised=exercised, detail=str(faults), basis=basis)
    if exercised == 0:
        return Check(name=name, rule=rule, status="vacuous", exercised=0, detail=vacuous, basis=basis)
    return Check(name=name, rule=rule, status="passed", exercised=exercised, detail=passed, basis=basis)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mismatch:
    """One token whose patterns differ, or are not finite, with the patterns of all sides; None where there is none."""

    round: int
    trajectory: int
    position: int
    token: int
    patterns: dict[str, int | None]

    def to_dict(self) -> dict[str, Any]:
        return {
            "round": self.round,
            "trajectory": self.trajectory,
            "position": self.position,
            "token": self.token,
            "bits": {side: None if bit is None else bits.to_hex(bit) for side, bit in self.patterns.items()},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One oracle: two sides of one arm, token by token."""

    name: str
    arm: str
    left: str
    right: str
    compared: int
    mismatches: int
    non_finite: int
    max_ulp: int
    first: Mismatch | None
    left_digest: str
    right_digest: str

    @property
    def verdict(self) -> Literal["equal", "different", "not_run"]:
        """*not_run* if no token has both sides."""
        if not self.compared:
            return "not_run"
        return "different" if self.mismatches or self.non_finite else "equal"

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "arm": self.arm,
            "left": self.left,
            "right": self.right,
            "compared": self.compared,
            "mismatches": self.mismatches,
            "nonFinite": self.non_finite,
            "maxUlp": self.max_ulp,
            "firstMismatch": self.first.to_dict() if self.first else None,
            "leftDigest": self.left_digest,
            "rightDigest": self.right_digest,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Exactness:
    """Rule 2 in one line: tokens whose three patterns are not one and the same finite pattern."""

    verdict: Verdict
    compared: int
    mismatches: int
    non_finite: int
    first: Mismatch | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "compared": self.compared,
            "mismatches": self.mismatches,
            "nonFinite": self.non_finite,
            "firstMismatch": self.first.to_dict() if self.first else None,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Overhead:
    """Rule 9: aligned step time over control step time, as decimal text."""

    verdict: Literal["within", "over", "no_budget", "not_run"]
    ratio: str | None
    budget: str | None
    pairs: int
    phases: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "ratio": self.ratio,
            "budget": self.budget,
            "pairs": self.pairs,
            "phases": self.phases,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """All of it. ``exclusions`` to ``observations`` are JSON-ready."""

    exactness: Exactness
    overhead: Overhead
    oracles: list[Comparison]
    checks: list[Check]
    exclusions: list[dict[str, Any]]
    control_arm: dict[str, Any]
    probes: list[dict[str, Any]]
    refits: dict[str, Any]
    observations: dict[str, Any]
    is_refusal: bool = False
    """Whether the run was there to record a refusal and nothing else."""

    @property
    def verdict(self) -> Verdict:
        """*failed* if any check failed, else *vacuous* if any showed nothing or was not run, else *passed*.

        *over_budget* where all is exact and only the cost is more than the recipe allows: exactness and overhead are
        two verdicts, and neither may hide the other (rule 9).  *refused* where the run was there to show that, and did.
        """
        if self.is_refusal:
            said = worst(check.status for check in self.checks)
            return "refused" if said == "passed" else said
        said = worst(check.status for check in self.checks if check.name != BUDGET)
        cost = [check.status for check in self.checks if check.name == BUDGET]
        return "over_budget" if said == "passed" and cost == ["failed"] else worst([said, *cost])

    @property
    def reasons(self) -> list[str]:
        """Why the verdict is not *passed*: every check that did not pass, failed ones first."""
        order = {"failed": 0, "vacuous": 1, "not_run": 2}
        wrong = sorted((check for check in self.checks if check.status in order), key=lambda check: order[check.status])
        told = [f"{check.name}: {check.status.replace('_', ' ')}: {check.detail}" for check in wrong]
        if self.is_refusal and not told:
            told = [f"{check.name}: refused: {check.detail}" for check in self.checks[:1]]
        return told

    def to_dict(self) -> dict[str, Any]:
        """The certificate's ``findings``."""
        return {
            "verdict": self.verdict,
            "reasons": self.reasons,
            "exactness": self.exactness.to_dict(),
            "overhead": self.overhead.to_dict(),
            "oracles": [oracle.to_dict() for oracle in self.oracles],
            "checks": [check.to_dict() for check in self.checks],
            "exclusions": self.exclusions,
            "controlArm": self.control_arm,
            "probes": self.probes,
            "refits": self.refits,
            "observations": self.observations,
        }


def worst(statuses: Iterable[Status | Verdict]) -> Verdict:
    """The verdict over several checks."""
    seen = set(statuses)
    if "failed" in seen:
        return "failed"
    return "vacuous" if seen & {"vacuous", "not_run"} or not seen else "passed"
