"""Rule 6: what was sampled is the raw softmax, by the parameters in force and by the sampler itself."""

from __future__ import annotations

import math

from samebits.oracle.chi_square import GoodnessOfFit, goodness_of_fit
from samebits.oracle.findings import Check, Faults, settle
from samebits.oracle.measured import Measured
from samebits.recipe import Recipe

REJECT_BELOW = 1e-6
"""The p-value under which a sampler is rejected: an exact sampler fails once in a million runs."""
DRAWS_AT_LEAST = 1000
DRAWS_AT_MOST = 2**53
"""The largest whole number that a certificate has a place for."""


def check(measured: Measured, recipe: Recipe) -> list[Check]:
    """The parameters of every request, and the chi-square test."""
    del recipe
    faults = Faults()
    for found in measured.trajectories.values():
        if found.sampling:
            faults.add(str(found.sampling), found.sampling.count)
    conforming = settle(
        "sampling.conforming",
        6,
        exercised=measured.trajectories["aligned"].count,
        faults=faults,
        passed="every request sampled at temperature 1 from the whole, unprocessed softmax",
        vacuous="there are no requests",
    )
    return [conforming, _sampler(measured)]


def _sampler(measured: Measured) -> Check:
    rows = measured.sampler
    if not rows:
        return Check(
            name="sampling.sampler", rule=6, status="not_run", exercised=0, detail="the sampler was not drawn from"
        )
    probabilities, draws = [row["probability"] for row in rows], [row["draws"] for row in rows]
    faults = Faults()
    if len({row["token_id"] for row in rows}) != len(rows):
        faults.add("a token is listed twice")
    if not all(0 <= one <= 1 for one in probabilities) or abs(math.fsum(probabilities) - 1) > 1e-6:  # noqa: PLR2004
        faults.add("the probabilities are no distribution")
    if min(draws) < 0:
        faults.add("a count of draws is negative")
    if sum(draws) > DRAWS_AT_MOST:
        faults.add(f"more than {DRAWS_AT_MOST} draws")
    if faults:
        return settle("sampling.sampler", 6, exercised=0, faults=faults, passed="", vacuous="")
    fit = goodness_of_fit(probabilities, draws)
    text = f"chi-square {fit.statistic:.4g} over {fit.bins} bins, p = {fit.p_value:.3e}, {fit.draws} draws"
    if fit.impossible:
        faults.add(f"{fit.impossible} draws of tokens with probability 0")
    if fit.p_value < REJECT_BELOW:
        faults.add(f"the sampler is biased: {text}; rejected below p = {REJECT_BELOW:g}")
    return settle(
        "sampling.sampler",
        6,
        exercised=fit.draws if _is_test(fit) else 0,
        faults=faults,
        passed=text,
        vacuous=f"too little to test: {text}; at least {DRAWS_AT_LEAST} draws over 2 bins are needed",
    )


def _is_test(fit: GoodnessOfFit) -> bool:
    return fit.draws >= DRAWS_AT_LEAST and fit.bins >= 2  # noqa: PLR2004 - one bin always fits
