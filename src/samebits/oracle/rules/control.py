"""Rule 11: with exactly the aligned switch off, the same recipe differs; with it on, the engine agrees with itself."""

from __future__ import annotations

from typing import Any, Final

from samebits.oracle.findings import Check, Faults, settle
from samebits.oracle.measured import Measured
from samebits.recipe import Recipe

SWITCHES: Final[dict[str, dict[str, dict[str, str]]]] = {
    "op_set": {"op_set": {"aligned": '"native"', "control": '"plain"'}},
    "batch_invariant": {"settings.batch_invariant": {"aligned": "true", "control": "false"}},
    "attention_split_kv": {"settings.attention_split_kv": {"aligned": "false", "control": "true"}},
}
"""By the aligned switch: the fact that both workers of two arms may, and must, differ in, and its values (JSON)."""

WORKERS: Final = ("engine", "actor")


def check(measured: Measured, recipe: Recipe) -> list[Check]:
    """The aligned engine against its own prefill, then what the control arm shows."""
    return [
        _prefill(measured),
        _rounds(measured, recipe),
        _differs(measured, "control.within", [("rollout", "prefill")], "the engine from its own prefill"),
        _differs(
            measured,
            "control.across",
            [("rollout", "recompute"), ("rollout", "train")],
            "rollout from the actor's sides",
        ),
        _switch(measured, recipe),
    ]


def summary(measured: Measured) -> dict[str, Any]:
    """The findings' ``controlArm``."""
    control = measured.tokens.arms["control"]
    return {
        "rounds": len(control.rounds),
        "tokens": control.response_tokens,
        "mismatches": {f"{left}/{right}": pair.mismatches for (left, right), pair in control.pairs.items()},
        "differences": {
            worker: {
                name: {"aligned": ours, "control": theirs} for name, ours, theirs in _differences(measured, worker)
            }
            for worker in WORKERS
        },
    }


def _prefill(measured: Measured) -> Check:
    pair = measured.tokens.arms["aligned"].pairs["rollout", "prefill"]
    faults = Faults()
    wrong = pair.mismatches or pair.non_finite
    if wrong:
        faults.add(f"{wrong} of {pair.compared} tokens differ between rollout and prefill, or are not finite", wrong)
    aligned = measured.tokens.arms["aligned"]
    scored = sum(aligned.rounds[round_] for round_, digests in aligned.digests.items() if "prefill" in digests)
    if pair.compared < scored:
        faults.add(f"only {pair.compared} of {scored} tokens were scored in the rounds that the prefill scored")
    return settle(
        "engine.prefill",
        11,
        exercised=pair.compared,
        faults=faults,
        passed="the aligned engine's rollout has the bits of its own prefill",
        vacuous="no token was scored by the engine's prefill",
    )


def _rounds(measured: Measured, recipe: Recipe) -> Check:
    found, wanted = len(measured.tokens.arms["control"].rounds), recipe.certification.control_rounds
    return Check(
        name="control.rounds",
        rule=11,
        status="passed" if found >= wanted else "vacuous",
        exercised=found,
        detail=f"{found} control rounds were run; the recipe asks for {wanted}",
    )


def _differs(measured: Measured, name: str, pairs: list[tuple[str, str]], words: str) -> Check:
    """A control that agrees shows only that the recipe is too easy to tell the switch on from the switch off."""
    control = measured.tokens.arms["control"]
    counts = [control.pairs[pair].mismatches for pair in pairs]
    compared = max(control.pairs[pair].compared for pair in pairs)
    faults = Faults()
    broken = max(control.pairs[pair].non_finite for pair in pairs)
    if broken:
        faults.add(f"{broken} tokens of the control arm are not finite: it is broken, not merely switched off", broken)
    return settle(
        name,
        11,
        exercised=min(counts),
        faults=faults,
        passed=f"without the switch, {min(counts)} of {compared} tokens differ: {words}",
        vacuous=f"without the switch, none of {compared} tokens differs: {words}",
    )


def _switch(measured: Measured, recipe: Recipe) -> Check:
    switch = SWITCHES[recipe.certification.switch]
    faults, exercised = Faults(), 0
    for worker in WORKERS:
        if not all(measured.facts.get((arm, worker)) for arm in ("aligned", "control")):
            detail = f"the {worker}'s own description is missing on an arm"
            return Check(name="control.switch", rule=11, status="not_run", exercised=0, detail=detail, basis="attested")
        different = {name for name, _, _ in _differences(measured, worker)}
        exercised += len(different & switch.keys())
        for name, values in switch.items():
            for arm, value in values.items():
                said = measured.facts[arm, worker].get(name)
                if said != value:
                    faults.add(f"the {arm} {worker} says {name} is {said}, not {value}")
        for name in sorted(different - switch.keys()):
            faults.add(f"the arms' {worker}s differ in {name} too")
        for name in sorted(switch.keys() - different):
            faults.add(f"the arms' {worker}s have the same {name}")
    return settle(
        "control.switch",
        11,
        exercised=exercised,
        faults=faults,
        passed=f"the arms differ in exactly {', '.join(sorted(switch))}",
        vacuous="",
        basis="attested",
    )


def _differences(measured: Measured, worker: str) -> list[tuple[str, str | None, str | None]]:
    ours, theirs = (measured.facts.get((arm, worker), {}) for arm in ("aligned", "control"))
    names = sorted(ours.keys() | theirs.keys())
    return [(name, ours.get(name), theirs.get(name)) for name in names if ours.get(name) != theirs.get(name)]
