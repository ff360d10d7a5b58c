"""Rule 9: what exactness costs, as a verdict of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from samebits.oracle.findings import BUDGET, Check, Faults, Overhead, settle
from samebits.oracle.measured import Measured
from samebits.oracle.observe import decimal_text
from samebits.recipe import Recipe

PLACES = 4
NO_PART_OF_A_STEP = frozenset({"score"})

Phases = dict[str, int]
"""Nanoseconds by phase."""


def measure(measured: Measured, recipe: Recipe) -> Overhead:
    """Median aligned step time over median baseline step time, over the rounds that both arms ran.

    The baseline is the recipe's own, the fastest unaligned configuration, or else the control arm.

    Against a baseline, a round's step time is all that each arm did in it, oracle and refit digests on the aligned side
    included.  Against the control arm, which is watched as closely, it is the sum of the phases that both timed.
    Scoring by the engine's own prefill is no part of a step.
    """
    times: defaultdict[tuple[str, int], Phases] = defaultdict(dict)
    for row in measured.timings:
        if row["phase"] in NO_PART_OF_A_STEP:
            continue
        phases = times[row["arm"], row["round"]]
        phases[row["phase"]] = phases.get(row["phase"], 0) + row["nanoseconds"]
    baseline = "control" if recipe.baseline is None else "baseline"
    rounds = sorted(round_ for arm, round_ in times if arm == baseline and round_ >= 0 and ("aligned", round_) in times)
    budget = (
        None if recipe.certification.overhead_budget is None else Decimal(repr(recipe.certification.overhead_budget))
    )
    text = None if budget is None else str(budget)
    whole = [(times["aligned", round_], times[baseline, round_]) for round_ in rounds]
    shared = [_shared(*pair) for pair in whole]
    pairs = shared if recipe.baseline is None else whole
    total = _ratio([(sum(aligned.values()), sum(base.values())) for aligned, base in pairs])
    if total is None:
        return Overhead(verdict="not_run", ratio=None, budget=text, pairs=0)
    ratios = {
        phase: _ratio([(aligned[phase], base[phase]) for aligned, base in shared if phase in aligned])
        for phase in sorted({phase for aligned, _ in shared for phase in aligned})
    }
    within = budget is None or total <= Fraction(budget)
    return Overhead(
        verdict="no_budget" if budget is None else "within" if within else "over",
        ratio=decimal_text(total, PLACES),
        budget=text,
        pairs=len(pairs),
        phases={phase: decimal_text(ratio, PLACES) for phase, ratio in ratios.items() if ratio is not None},
    )


def check(found: Overhead) -> Check:
    """The budget as a check; it does not apply where the recipe sets none."""
    if found.budget is None:
        detail = "the recipe sets no budget" + (f"; the ratio is {found.ratio}" if found.ratio else "")
        return Check(
            name=BUDGET,
            rule=9,
            status="not_applicable",
            exercised=found.pairs,
            detail=detail,
            basis="attested",
        )
    if found.verdict == "not_run":
        detail = "no round was timed on both arms"
        return Check(name=BUDGET, rule=9, status="not_run", exercised=0, detail=detail, basis="attested")
    faults = Faults()
    if found.verdict == "over":
        faults.add(f"the aligned step takes {found.ratio} times the baseline's; the budget is {found.budget}")
    return settle(
        BUDGET,
        9,
        exercised=found.pairs,
        faults=faults,
        passed=f"the aligned step takes {found.ratio} times the baseline's, within {found.budget}",
        vacuous="",
        basis="attested",
    )


def _shared(aligned: Phases, base: Phases) -> tuple[Phases, Phases]:
    both = aligned.keys() & base.keys()
    return {phase: aligned[phase] for phase in both}, {phase: base[phase] for phase in both}


def _ratio(pairs: list[tuple[int, int]]) -> Fraction | None:
    below = _median(base for _, base in pairs)
    return _median(aligned for aligned, _ in pairs) / below if below else None


def _median(values: Iterable[int]) -> Fraction:
    ordered = sorted(values)
    if not ordered:
        return Fraction(0)
    middle = len(ordered) // 2
    return Fraction(ordered[middle]) if len(ordered) % 2 else Fraction(ordered[middle - 1] + ordered[middle], 2)
