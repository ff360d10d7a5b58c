"""Recipes of refusals: the real engine is built on a model that no row certifies, and must itself raise.

Everything else that a recipe has stands idle, so such a file may say nothing of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from samebits.schema import Conflict

if TYPE_CHECKING:
    from samebits.recipe.model import Model, Recipe

IDLE: Final[Mapping[str, Any]] = {
    "workload": {"problems": "chain_sum", "problems_per_round": 1, "samples_per_problem": 2, "max_response_tokens": 16},
    "engine": {"max_model_len": 32, "max_num_seqs": 2, "max_num_batched_tokens": 32, "num_gpu_blocks": 2},
    "actor": {"learning_rate": 0.0, "recompute_pack": 1, "train_pack": 2},
    "certification": {"min_tokens": 1},
    "exclusions": [{"kind": "engine", "set": {"tensor_parallel_size": 2}, "why": "nothing is run"}],
}
"""What the closed model wants of every recipe; nothing of it is run, measured or judged."""
OTHERS: Final = (*IDLE, "baseline", "past_the_gate")


def not_alone(data: Mapping[str, Any]) -> Iterator[Conflict]:
    """Tables beside ``[refusal]`` that would never be looked at."""
    for name in OTHERS:
        if name in data:
            yield Conflict(
                name,
                found="a table",
                accepted="nothing beside [refusal]: it would not be run",
                next_step="Remove it, or [refusal].",
            )


def refusal_conflicts(recipe: Recipe) -> Iterator[Conflict]:
    """Foreign models are for refusals, and refusals for foreign models."""
    model = recipe.model
    if recipe.refusal is None:
        what = "model.family" if model.family == "foreign" else "model.config"
        yield Conflict(
            what,
            found=repr(model.family) if model.family == "foreign" else "a table",
            accepted="a model of the kit's own: without [refusal] it is computed",
            next_step="Add [refusal], or choose another model.",
        )
        return
    if model.family != "foreign":
        yield Conflict("model.family", found=repr(model.family), accepted="'foreign': [refusal] is there")
    if model.source != "dummy":
        yield Conflict("model.source", found=repr(model.source), accepted="'dummy': there are no weights")
    for name in ("shape", "ds4"):
        if getattr(model, name) is not None:
            yield Conflict(f"model.{name}", found="a table", accepted="nothing: config says everything")
    yield from _config(model)


def config_bytes(model: Model) -> bytes:
    """``config.json`` of a foreign model, the same bytes whoever makes it."""
    return (json.dumps(model.config, indent=1, sort_keys=True) + "\n").encode()


def _config(model: Model) -> Iterator[Conflict]:
    config = model.config
    if config is None:
        yield Conflict(
            "model.config", found="nothing", accepted="a table, config.json", next_step="Add [model.config]."
        )
        return
    found = config.get("architectures")
    if not (isinstance(found, list) and len(found) == 1 and isinstance(found[0], str)):
        yield Conflict("model.config.architectures", found=repr(found)[:80], accepted="a list of one name")
    if not isinstance(config.get("model_type"), str):
        yield Conflict("model.config.model_type", found=repr(config.get("model_type"))[:80], accepted="a name")
    if "auto_map" in config:
        yield Conflict("model.config.auto_map", found="code of somebody else's", accepted="nothing")
    try:
        json.dumps(config, allow_nan=False)
    except (TypeError, ValueError):
        yield Conflict("model.config", found="a value that JSON does not have", accepted="config.json")
