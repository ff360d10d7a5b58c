"""The gate over the rows and recipes that are really there."""

from __future__ import annotations

from pathlib import Path

import pytest

from samebits import pins, recipe
from samebits.gate.request import RULES
from samebits.gate.request import conflicts as request_conflicts
from samebits.gate.settings import accepted_from_json, conflicts

ROOT = Path(__file__).parents[2]
RECIPES = [recipe.load(path)[0] for path in sorted((ROOT / "recipes").glob("*.toml"))]
ROWS = [pins.load(path)[0] for path in sorted((ROOT / "lock").glob("*.toml"))]
# What goes past a gate on purpose is refused there, which is what such a recipe shows.
PAIRS = [
    (one, row)
    for one in RECIPES
    for row in ROWS
    if row.id in one.rows and not one.past_the_gate and one.refusal is None
]


def each_exclusion(kind):
    return [
        pytest.param(one, row, exclusion, id=f"{one.id}-{row.id}-{'-'.join(exclusion.set)}")
        for one, row in PAIRS
        for exclusion in one.exclusions
        if exclusion.kind == kind
    ]


def engine_gate(row, one):
    return accepted_from_json(row.gate.engine_rules(one.model.family), where="gate.engine")


@pytest.mark.parametrize(("one", "row"), PAIRS, ids=lambda value: value.id)
def test_recipes_pass_the_gate_of_their_rows(one, row):
    assert conflicts(one.engine.model_dump(), engine_gate(row, one), where="engine") == []


@pytest.mark.parametrize(("one", "row", "exclusion"), each_exclusion("engine"))
def test_every_excluded_engine_setting_is_refused_for_itself(one, row, exclusion):
    found = conflicts({**one.engine.model_dump(), **exclusion.set}, engine_gate(row, one), where="engine")
    assert [error.field for error in found] == [f"engine.{name}" for name in exclusion.set]


@pytest.mark.parametrize(("one", "row", "exclusion"), each_exclusion("request"))
def test_every_excluded_request_is_refused_for_itself(one, row, exclusion):  # noqa: ARG001 - one id a pair
    found = request_conflicts({**recipe.CONFORMING, "seed": 0, **exclusion.set}, request_id="x")
    assert [error.field for error in found] == [f"request 'x': {name}" for name in exclusion.set]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_no_row_certifies_a_request_that_the_gate_refuses(row):
    for name, allowed in row.gate.request.items():
        values = getattr(allowed, "accepted", None) or (None,)
        assert [value for value in values if not RULES[name].accepts(value)] == [], name


@pytest.mark.parametrize(("name", "value"), [("quantization", "fp8"), ("kv_cache_dtype", "fp8_ds_mla")])
def test_fp8_is_certified_only_where_the_family_computes_in_it(name, value):
    row = next(row for row in ROWS if row.id == "cpu")
    found = {
        family: accepted_from_json(row.gate.engine_rules(family), where="gate.engine")[name].accepts(value)
        for family in ("dense", "ds4")
    }
    assert found == {"dense": False, "ds4": True}
