"""What the workers say they were built with is what the recipe asks for, setting by setting."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from samebits.oracle.findings import Check, Faults, settle
from samebits.oracle.layout import ARMS
from samebits.oracle.measured import Measured
from samebits.oracle.model_facts import layers
from samebits.recipe import ALIGNED, Recipe

_PREFIX = "settings."


def check(measured: Measured, recipe: Recipe) -> list[Check]:
    """The configuration that was asked for, and whether the row certifies it at all."""
    return [*_as_asked(measured, recipe), *_certified(recipe)]


def _certified(recipe: Recipe) -> list[Check]:
    """Only where a recipe goes past the gate on purpose; elsewhere the gate itself refuses."""
    if not recipe.past_the_gate:
        return []
    settings = ", ".join(f"{name} = {json.dumps(value)}" for name, value in sorted(recipe.past_the_gate.items()))
    detail = f"the recipe goes past the row's gate on purpose: {settings}"
    return [
        Check(
            name="configuration.certified", rule=10, status="failed", exercised=len(recipe.past_the_gate), detail=detail
        )
    ]


def _as_asked(measured: Measured, recipe: Recipe) -> list[Check]:
    """Both workers of both arms: a certificate names its configuration by the recipe's digest alone (rule 8)."""
    faults, exercised = Faults(), 0
    stated = {
        "engine": {"dtype", *_settings(dict.fromkeys(recipe.engine.model_fields_set))},
        "actor": {"dtype", "layers", *_settings(dict.fromkeys({*recipe.actor.model_fields_set, "max_model_len"}))},
    }
    for arm in ARMS:
        for worker, wanted in _asked(recipe, arm).items():
            said = measured.facts.get((arm, worker), {})
            if not said:
                detail = f"the {arm} {worker}'s own description is missing"
                return [Check(name="configuration.as-asked", rule=8, status="not_run", exercised=0, detail=detail)]
            settings = {name for name in said if name.startswith(_PREFIX)}
            for name in sorted(wanted.keys() | settings):
                asked = json.dumps(wanted[name], sort_keys=True) if name in wanted else "nothing"
                if name not in said and name not in stated[worker]:
                    continue  # a setting that the recipe leaves at its default, and that its kit did not have yet
                exercised += 1
                if said.get(name, "nothing") != asked:
                    faults.add(
                        f"the {arm} {worker} says {name[:80]!r} is {said.get(name, 'nothing')[:80]!r}, not {asked}"
                    )
    return [
        settle(
            "configuration.as-asked",
            8,
            exercised=exercised,
            faults=faults,
            passed=f"the workers were built with the recipe's settings, all {exercised} of them",
            vacuous="the recipe asks for nothing",
            basis="attested",
        )
    ]


def _asked(recipe: Recipe, arm: str) -> dict[str, Mapping[str, Any]]:
    """By worker: name of a fact to its value."""
    engine = recipe.engine.model_dump()
    # The actor pads attention to the engine's number of key slots, so that is a setting of its own (rule 8).
    actor = recipe.actor.model_dump() | {"max_model_len": recipe.engine.max_model_len}
    switch = recipe.certification.switch
    if switch in ALIGNED:
        position = {switch: ALIGNED[switch] if arm == "aligned" else not ALIGNED[switch]}
        engine, actor = engine | position, actor | position
    return {
        "engine": {"dtype": recipe.model.dtype, **_settings(engine)},
        "actor": {"dtype": recipe.model.dtype, "layers": layers(recipe.model), **_settings(actor)},
    }


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{_PREFIX}{name}": value for name, value in values.items()}
