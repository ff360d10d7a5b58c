"""Rule 7: consecutive refits with real optimizer steps, every tensor carried over whole."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

from samebits.oracle.findings import Check, Faults, settle
from samebits.oracle.measured import Measured, Row
from samebits.oracle.model_facts import layers
from samebits.recipe import Recipe

NAMES_LISTED = 20
_NONE = "no refit was recorded"
_LAYER = re.compile(r"(?:^|\.)layers?\.(\d+)(?:\.|$)")

Versions = dict[int, dict[str, Row]]
"""By version, then by tensor."""


def check(measured: Measured, recipe: Recipe) -> list[Check]:
    """Versions in a row, masters that move, deployed weights that move, digests that agree, reasons for the frozen."""
    versions = by_version(measured, "aligned")
    return [
        _consecutive(measured, recipe),
        _masters(versions),
        _deployed(versions),
        _carried(measured),
        _frozen(versions, layers(recipe.model)),
    ]


def by_version(measured: Measured, arm: str) -> Versions:
    """The refits of ``arm``; of a tensor that is listed twice, the last row."""
    versions: Versions = {}
    for row in measured.refits.get(arm, []):
        versions.setdefault(row["version"], {})[row["tensor"]] = row
    return dict(sorted(versions.items()))


def summary(measured: Measured) -> dict[str, Any]:
    """The findings' ``refits``."""
    versions = by_version(measured, "aligned")
    frozen = {name: row["frozen"] for name, row in _first(versions).items() if row["frozen"]}
    return {
        "refits": max(len(versions) - 1, 0),
        "tensors": len(_first(versions)),
        "trained": len(_first(versions)) - len(frozen),
        "frozen": {"count": len(frozen), "reasons": [_reason(frozen, name) for name in sorted(frozen)[:NAMES_LISTED]]},
        "versions": [
            {
                "version": after,
                "tensors": len(versions[after]),
                "mastersChanged": len(_changed(versions[before], versions[after], "master")),
                "deployedUnchanged": _listed(_unchanged_deployed(versions[before], versions[after])),
            }
            for before, after in _steps(versions)
        ],
    }


def _reason(frozen: dict[str, str], name: str) -> dict[str, str]:
    return {"tensor": name, "reason": frozen[name]}


def _consecutive(measured: Measured, recipe: Recipe) -> Check:
    wanted = recipe.certification.refits
    if not measured.refits.get("aligned"):
        return Check(name="refits.consecutive", rule=7, status="not_run", exercised=0, detail=_NONE)
    faults = Faults()
    counted = Counter((row["version"], row["tensor"]) for row in measured.refits.get("aligned", []))
    for (version, tensor), count in sorted(counted.items()):
        if count > 1:
            faults.add(f"version {version} has {tensor} {count} times")
    versions = by_version(measured, "aligned")
    if list(versions) != list(range(wanted + 1)):
        faults.add(f"found the versions {_ranges(list(versions))}; the recipe asks for 0 to {wanted}")
    for version, tensors in versions.items():
        stray = sorted(tensors.keys() ^ _first(versions).keys())
        if stray:
            faults.add(f"version {version} differs from the first in which tensors it has: {', '.join(stray[:3])}")
    rounds = {round_ for round_, tokens in measured.tokens.arms["aligned"].rounds.items() if tokens}
    if rounds != set(range(wanted + 1)):
        faults.add(f"tokens were compared under the versions {_ranges(sorted(rounds))}; not 0 to {wanted}")
    first: dict[str, int] = {}
    for round_, digests in measured.tokens.arms["aligned"].digests.items():
        # Other prompts, seeds and weights: whole rounds of equal bits are one round, written down twice.
        before = first.setdefault(digests.get("rollout", f"none in {round_}"), round_)
        if before != round_:
            faults.add(f"rounds {before} and {round_} have the same logprobs, bit for bit: one is a copy")
    return settle(
        "refits.consecutive",
        7,
        exercised=max(len(versions) - 1, 0),
        faults=faults,
        passed=f"{wanted} consecutive refits, tokens compared under every version",
        vacuous=_NONE,
    )


def _masters(versions: Versions) -> Check:
    """Each trained tensor's fp32 master changes at every refit; a frozen one never does."""
    faults, exercised = Faults(), 0
    for before, after in _steps(versions):
        changed = set(_changed(versions[before], versions[after], "master"))
        for name, row in versions[after].items():
            if name not in versions[before]:
                continue
            exercised += not row["frozen"]
            if not row["frozen"] and name not in changed:
                faults.add(f"version {after}: the master of {name} did not change")
            if row["frozen"] and name in changed:
                faults.add(f"version {after}: {name} changed, though it is frozen ({row['frozen']})")
            if not row["master"] and not row["frozen"]:
                faults.add(f"version {after}: {name} has no master digest")
    return settle(
        "refits.masters",
        7,
        exercised=exercised,
        faults=faults,
        passed="the fp32 master of every trained tensor changed at every refit",
        vacuous=_NONE,
    )


def _deployed(versions: Versions) -> Check:
    """If rounding hides every change, all rounds ran on the same weights and the refits show nothing."""
    moved, still = 0, []
    for before, after in _steps(versions):
        count = len(_changed(versions[before], versions[after], "sent"))
        moved += count
        if not count:
            still.append(str(after))
    detail = "deployed weights changed at every refit" if moved else _NONE
    if still:
        detail = (
            f"no deployed tensor changed in version {', '.join(still[:10])}: the refit carried the same weights again"
        )
    return Check(
        name="refits.deployed",
        rule=7,
        status="passed" if moved and not still else "vacuous",
        exercised=moved,
        detail=detail,
    )


def _carried(measured: Measured) -> Check:
    """Sent, arrived and loaded are one digest, for every tensor of every version of both arms (RFC WS3)."""
    faults, exercised = Faults(), 0
    for arm, rows in measured.refits.items():
        for row in rows:
            exercised += 1
            digests = {name: row[name] for name in ("sent", "arrived", "loaded")}
            where = f"{arm}, version {row['version']}: {row['tensor']}"
            for name, digest in digests.items():
                if not digest:
                    faults.add(f"{where} was not {name}")
            for name in ("arrived", "loaded"):
                if digests[name] and digests["sent"] and digests[name] != digests["sent"]:
                    faults.add(f"{where} {name} with other bytes than were sent")
    return settle(
        "refits.carried",
        7,
        exercised=exercised,
        faults=faults,
        passed="every tensor arrived and was loaded with the bytes that were sent",
        vacuous=_NONE,
    )


def _frozen(versions: Versions, layers_wanted: int) -> Check:
    """A tensor is frozen in all versions or in none, and something trains in every layer of the model."""
    faults = Faults()
    trained = {
        match[1] for name, row in _first(versions).items() if not row["frozen"] and (match := _LAYER.search(name))
    }
    idle = [layer for layer in range(layers_wanted) if str(layer) not in trained]
    if versions and idle:
        faults.add(f"nothing trains in layer {', '.join(map(str, idle[:NAMES_LISTED]))}")
    reasons = {name: row["frozen"] for name, row in _first(versions).items()}
    for version, tensors in versions.items():
        for name, row in tensors.items():
            if row["frozen"] != reasons.get(name, row["frozen"]):
                faults.add(f"version {version}: {name} is frozen for another reason than at first")
    frozen = sum(bool(reason) for reason in reasons.values())
    return settle(
        "refits.frozen",
        7,
        exercised=len(reasons) - frozen,
        faults=faults,
        passed=f"{len(reasons) - frozen} tensors train, {frozen} are frozen, each with its reason",
        vacuous="no tensor trains",
    )


def _first(versions: Versions) -> dict[str, Row]:
    return versions[min(versions)] if versions else {}


def _steps(versions: Versions) -> list[tuple[int, int]]:
    return list(itertools.pairwise(versions))


def _changed(before: dict[str, Row], after: dict[str, Row], column: str) -> list[str]:
    return [name for name in after if name in before and after[name][column] != before[name][column]]


def _unchanged_deployed(before: dict[str, Row], after: dict[str, Row]) -> list[str]:
    changed = set(_changed(before, after, "sent"))
    return sorted(name for name, row in after.items() if not row["frozen"] and name in before and name not in changed)


def _listed(names: list[str]) -> dict[str, Any]:
    return {"count": len(names), "names": names[:NAMES_LISTED]}


def _ranges(numbers: list[int]) -> str:
    # Sorted and distinct; never a list of all between two numbers that a file may have put far apart.
    if numbers and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers[:20])) or "none"
