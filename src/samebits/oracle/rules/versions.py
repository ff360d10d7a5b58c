"""Rule 5: one weight version per trajectory."""

from __future__ import annotations

from samebits.oracle.findings import Check, Faults, settle
from samebits.oracle.measured import Measured
from samebits.recipe import Recipe


def check(measured: Measured, recipe: Recipe) -> list[Check]:
    """Started, ended and trained under the version of its round, with asynchronous rollout off."""
    faults = Faults()
    for found in measured.trajectories.values():
        if found.versions:
            faults.add(str(found.versions), found.versions.count)
    if recipe.engine.async_rollout:
        faults.add("the recipe turns asynchronous rollout on")
    return [
        settle(
            "versions.one",
            5,
            exercised=measured.trajectories["aligned"].count,
            faults=faults,
            passed="every trajectory started, ended and was trained under the version of its round",
            vacuous="there are no trajectories",
        )
    ]
