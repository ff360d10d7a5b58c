"""Rule 10: every excluded configuration and request was tried, and refused; so was whatever else was tried."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from samebits.oracle.findings import Check, Faults, settle
from samebits.oracle.measured import Measured, Row
from samebits.recipe import Exclusion, Recipe


def listed(measured: Measured, recipe: Recipe) -> list[dict[str, Any]]:
    """The findings' ``exclusions``: one entry per exclusion of the recipe, in its order."""
    tried = _tried(measured)
    return [_entry(exclusion, tried.get(_key(exclusion), [])) for exclusion in recipe.exclusions]


def check(measured: Measured, recipe: Recipe) -> list[Check]:
    """Whether each was refused."""
    faults, exercised = Faults(), 0
    if not measured.refusals:
        detail = "no exclusion was tried"
        return [
            Check(name="exclusions.refused", rule=10, status="not_run", exercised=0, detail=detail, basis="attested")
        ]
    tried = _tried(measured)
    for exclusion in recipe.exclusions:
        attempts = tried.pop(_key(exclusion), [])
        exercised += bool(attempts)
        _judge(faults, f"{exclusion.kind} {_canonical(exclusion.set)}", exclusion.set, attempts)
    for (kind, text), attempts in tried.items():
        # A run tries more than its recipe lists: a name that no setting has. Evidence of earlier runs holds none.
        excluded = json.loads(text or "null")
        if isinstance(excluded, dict):
            _judge(faults, f"{kind} {text}", excluded, attempts)
    return [
        settle(
            "exclusions.refused",
            10,
            exercised=exercised,
            faults=faults,
            passed=f"all {len(recipe.exclusions)} exclusions of the recipe were tried and refused",
            vacuous="the recipe excludes nothing",
            basis="attested",
        )
    ]


def _judge(faults: Faults, name: str, excluded: Iterable[str], attempts: Sequence[Row]) -> None:
    if not attempts:
        faults.add(f"{name} was not tried")
    elif not all(row["refused"] for row in attempts):
        faults.add(f"{name} was not refused")
    elif not all(row["by"] for row in attempts):
        faults.add(f"nobody is named who refused {name}")
    elif not all(_is_about(row["field"], excluded) for row in attempts):
        faults.add(f"{name} was refused for another reason: {attempts[0]['field'][:80]!r}")


def _tried(measured: Measured) -> dict[tuple[str, str | None], list[Row]]:
    """What was tried, by kind and canonical JSON; None: what is no JSON."""
    found: dict[tuple[str, str | None], list[Row]] = {}
    for row in measured.refusals:
        found.setdefault((row["kind"], _canonical_text(row["set"])), []).append(row)
    return found


def _key(exclusion: Exclusion) -> tuple[str, str | None]:
    return exclusion.kind, _canonical(exclusion.set)


def _is_about(field: str, excluded: Iterable[str]) -> bool:
    """Whether a refusal names what was excluded: a gate that refuses everything would refuse this too."""
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", field) for name in excluded)


def _entry(exclusion: Exclusion, attempts: list[Row]) -> dict[str, Any]:
    last = attempts[-1] if attempts else {"by": "", "field": "", "message": ""}
    return {
        "kind": exclusion.kind,
        "set": _canonical(exclusion.set),
        "why": exclusion.why,
        "tried": len(attempts),
        "refused": bool(attempts) and all(row["refused"] for row in attempts),
        "by": last["by"],
        "field": last["field"],
        "message": last["message"],
    }


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _canonical_text(text: str) -> str | None:
    try:
        return _canonical(json.loads(text))
    except (ValueError, RecursionError):
        return None
