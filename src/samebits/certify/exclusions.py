"""Rule 10, exercised: every exclusion of the recipe is put to the real worker, which must refuse it.

An excluded engine or actor setting goes to ``construct`` of the live worker, an excluded request to ``generate``; both
refuse before anything is touched.  So is, each time, a setting that nobody knows: a recipe cannot name one, and a gate
that drops what it does not know, or passes it on, would do so with tomorrow's settings too.  What was *not* refused is
recorded as such, and the oracle fails the run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

from samebits.certify.arm import Arm, actor_parameters, engine_parameters
from samebits.engine.protocol import Request
from samebits.errors import GateError
from samebits.pins import Row
from samebits.recipe import CONFORMING, Exclusion, Recipe

UNKNOWN: Final = "samebits_unknown"
"""No setting and no sampling parameter of any version has this name."""

_KINDS: Final[tuple[Literal["engine", "actor", "request"], ...]] = ("engine", "actor", "request")


def exercise(arm: Arm, recipe: Recipe, row: Row, model: Path) -> list[dict[str, Any]]:
    """Rows of the ``refusals`` table: an unknown setting of each kind, then one per exclusion, in the recipe's order.

    Raises:
        SamebitsError: a worker died of a configuration instead of refusing it, or refused for another reason.
    """
    unknown = [Exclusion(kind=kind, set={UNKNOWN: True}, why="nobody knows it") for kind in _KINDS]
    return [_attempt(arm, recipe, row, model, exclusion) for exclusion in (*unknown, *recipe.exclusions)]


def _attempt(arm: Arm, recipe: Recipe, row: Row, model: Path, exclusion: Exclusion) -> dict[str, Any]:
    found = {"refused": False, "by": "", "field": "", "message": "accepted: nothing refused it"}
    try:
        if exclusion.kind == "engine":
            arm.engine.construct(**_laid_over(engine_parameters(arm.name, recipe, row, model), exclusion))
        elif exclusion.kind == "actor":
            arm.actor.construct(**_laid_over(actor_parameters(arm.name, recipe, row, model), exclusion))
        else:
            arm.engine.generate([_request(exclusion)], version=0)
    except GateError as refusal:
        found = {"refused": True, "by": "gate", "field": refusal.field, "message": str(refusal)}
    return {"kind": exclusion.kind, "set": json.dumps(exclusion.set, sort_keys=True), **found}


def _laid_over(parameters: dict[str, Any], exclusion: Exclusion) -> dict[str, Any]:
    return {**parameters, "settings": {**parameters["settings"], **exclusion.set}}


def _request(exclusion: Exclusion) -> Request:
    """A request that conforms in everything but what is excluded."""
    return Request(
        request_id="excluded",
        prompt_token_ids=[1, 2, 3],
        max_tokens=1,
        seed=0,
        stop_token_ids=[],
        sampling={**CONFORMING, **exclusion.set},
    )
