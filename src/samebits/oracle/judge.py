"""The oracle: from evidence and a recipe to findings.

A pure function. It runs when a certification ends and again, with the same result, whenever somebody verifies the
certificate; nothing that the producer says of itself enters but what the evidence records.
"""

from __future__ import annotations

from pathlib import Path

from samebits.errors import InputError, SamebitsError
from samebits.oracle.evidence import EvidenceReader
from samebits.oracle.findings import Findings
from samebits.oracle.measured import measure
from samebits.oracle.rules import (
    configuration,
    contract,
    control,
    equality,
    exclusions,
    independence,
    informative,
    overhead,
    refits,
    refusal,
    sampling,
    versions,
)
from samebits.oracle.tokens import PAIRS
from samebits.recipe import Recipe


def judge(folder: Path, recipe: Recipe, *, error: type[SamebitsError] = InputError) -> Findings:
    """Judges the evidence in ``folder`` by every rule, and lists everything that is wrong, not only the first.

    Raises:
        SamebitsError: of the class ``error``, if the folder does not hold evidence at all; evidence of a bad run is
            not an error but a finding.
    """
    if recipe.refusal is not None:
        return refusal.judge(folder, recipe, recipe.refusal, error=error)
    measured = measure(EvidenceReader(folder, error=error))
    cost = overhead.measure(measured, recipe)
    checks = [
        *equality.check(measured, recipe),
        *independence.check(measured, recipe),
        *versions.check(measured, recipe),
        *sampling.check(measured, recipe),
        *refits.check(measured, recipe),
        *contract.check(measured, recipe),
        *configuration.check(measured, recipe),
        overhead.check(cost),
        *exclusions.check(measured, recipe),
        *control.check(measured, recipe),
        *informative.check(measured, recipe),
    ]
    return Findings(
        exactness=equality.exactness(measured, checks),
        overhead=cost,
        oracles=[found.comparison(arm, pair) for arm, found in measured.tokens.arms.items() for pair in PAIRS],
        checks=checks,
        exclusions=exclusions.listed(measured, recipe),
        control_arm=control.summary(measured),
        probes=independence.probe_rows(measured),
        refits=refits.summary(measured),
        observations=informative.observations(measured, recipe),
    )
