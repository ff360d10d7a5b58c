"""Rule 10 of a recipe that records a refusal: the engine itself raised, for the stated reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from samebits.errors import SamebitsError
from samebits.hashing import sha256_bytes
from samebits.oracle.evidence import EvidenceReader
from samebits.oracle.findings import Check, Exactness, Faults, Findings, Overhead, settle
from samebits.recipe import Recipe, Refusal, config_bytes

KIND: Final = "construct"


def judge(folder: Path, recipe: Recipe, refusal: Refusal, *, error: type[SamebitsError]) -> Findings:
    """The findings of such a run: nothing was compared, so *refused* is the best that it can be.

    Raises:
        SamebitsError: of the class ``error``, if the folder does not hold evidence at all.
    """
    reader = EvidenceReader(folder, error=error)
    rows = list(reader.records("refusals"))
    facts = {str(row["name"]): _value(str(row["value"])) for row in reader.records("facts")}
    checks = [_raised(rows, refusal), _of_the_model(facts, recipe)]
    if refusal.batch_invariant:
        checks.append(_not_without(facts, refusal))
    return Findings(
        exactness=Exactness(verdict="vacuous", compared=0, mismatches=0, non_finite=0, first=None),
        overhead=Overhead(verdict="not_run", ratio=None, budget=None, pairs=0),
        oracles=[],
        checks=checks,
        exclusions=[_entry(row, refusal) for row in rows],
        control_arm={},
        probes=[],
        refits={},
        observations={},
        is_refusal=True,
    )


def _raised(rows: list[dict[str, object]], refusal: Refusal) -> Check:
    """Exactly one attempt, refused by the engine, in the words that the recipe names."""
    faults = Faults()
    wanted = json.dumps({"batch_invariant": refusal.batch_invariant, **refusal.arguments}, sort_keys=True)
    if len(rows) != 1:
        faults.add(f"{len(rows)} refusals are recorded, not one")
    for row in rows[:1]:
        if row["kind"] != KIND or row["set"] != wanted:
            faults.add(f"{row['kind']!s:.40} {row['set']!s:.200} was tried, not {KIND} {wanted}")
        elif not row["refused"]:
            faults.add("the engine did not refuse: a token came out")
        elif row["by"] != "vllm":
            faults.add(f"refused by {row['by']!r:.40}, not by the engine")
        elif refusal.because not in str(row["message"]):
            faults.add(f"refused for another reason: {row['message']!s:.200}")
    said = f"vllm, {rows[0]['field']}: {rows[0]['message']!s:.400}" if rows else ""
    return settle(
        "refusal.raised",
        10,
        exercised=len(rows),
        faults=faults,
        passed=f"the engine itself raised: {said}",
        vacuous="nothing was tried",
        basis="attested",
    )


def _of_the_model(facts: Mapping[str, Any], recipe: Recipe) -> Check:
    """It was built on the recipe's configuration."""
    faults = Faults()
    wanted = sha256_bytes(config_bytes(recipe.model))
    if facts.get("config_sha256") != wanted:
        faults.add(f"the engine read a config.json with sha256 {facts.get('config_sha256')!s:.64}, not {wanted}")
    return settle(
        "refusal.model",
        10,
        exercised=len(facts),
        faults=faults,
        passed=f"the engine read the recipe's config.json, sha256 {wanted}",
        vacuous="the engine said nothing of itself",
        basis="attested",
    )


def _not_without(facts: Mapping[str, Any], refusal: Refusal) -> Check:
    """Without the flag the same engine does not say that, so the flag is the reason."""
    faults = Faults()
    message = str(facts.get("without.message", ""))
    exercised = int("without.message" in facts)
    if refusal.because in message:
        faults.add(f"without the flag it says the same: {message:.200}")
    return settle(
        "refusal.by-the-flag",
        10,
        exercised=exercised,
        faults=faults,
        passed=f"without the flag the same engine said: {message[:200] or 'nothing, a token came out'}",
        vacuous="the engine was not built without the flag",
        basis="attested",
    )


def _entry(row: Mapping[str, object], refusal: Refusal) -> dict[str, Any]:
    return {
        "kind": str(row["kind"]),
        "set": str(row["set"]),
        "why": refusal.because,
        "tried": 1,
        "refused": bool(row["refused"]),
        "by": str(row["by"]),
        "field": str(row["field"]),
        "message": str(row["message"]),
    }


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
