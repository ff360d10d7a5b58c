"""The row of an actor inside Megatron; needs no Megatron."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from samebits import pins, recipe
from samebits.gate.settings import accepted_from_json
from samebits.pins import hashed
from samebits.verify.verification import _inner

LOCK = Path(__file__).resolve().parents[2] / "lock"
ROW = "cpu-megatron-0.16"


@pytest.fixture(scope="module")
def row():
    return pins.load(ROW)[0]


def test_it_is_the_cpu_row_but_for_megatron(row):
    cpu = pins.load("cpu")[0]
    assert (row.switch, row.hardware, row.gate.request) == (cpu.switch, cpu.hardware, cpu.gate.request)
    assert (row.gate.engine, row.gate.actor) == (cpu.gate.engine, cpu.gate.actor)
    assert row.gate.family == {}, "experts do not go through Megatron yet"
    (added,) = [package for package in row.packages if package not in cpu.packages]
    assert (added.name, added.version) == ("megatron-core", "0.16.1")


def test_the_requirements_add_one_release():
    pinned = [
        {pin.name: (pin.version, pin.hashes) for pin in hashed.parse((LOCK / name).read_text(), source=name)}
        for name in (f"{ROW}.txt", "cpu.txt")
    ]
    assert pinned[0].keys() - pinned[1].keys() == {"megatron-core"}
    assert {name: pin for name, pin in pinned[0].items() if name != "megatron-core"} == pinned[1]


def test_its_gate_names_the_fields_of_such_an_actor(row):
    assert set(row.gate.actor_rules("megatron")) == set(recipe.MegatronActor.model_fields)
    assert row.gate.actor_rules() == tomllib.loads((LOCK / f"{ROW}.toml").read_text())["gate"]["actor"]


def test_other_rows_refuse_the_kind():
    table = accepted_from_json(pins.load("cpu")[0].gate.actor_rules("megatron"), where="actor")
    assert not table["kind"].accepts("megatron")
    assert "batch_invariant_mode" not in table


@pytest.mark.parametrize("name", ["dense-qwen3-small-megatron", "dense-smollm2-megatron"])
def test_its_gate_accepts_the_variants_and_refuses_what_they_exclude(row, name):
    loaded = recipe.load(name)[0]
    table = accepted_from_json(row.gate.actor_rules("megatron"), where="actor")
    settings = loaded.actor.model_dump()
    assert [field for field, value in settings.items() if not table[field].accepts(value)] == []
    passed_on = [
        exclusion.set
        for exclusion in loaded.exclusions
        if exclusion.kind == "actor" and all(table[field].accepts(value) for field, value in exclusion.set.items())
    ]
    assert passed_on == [{"batch_invariant_mode": True}], "Megatron is asked, and refuses by itself"


@pytest.mark.parametrize(
    ("gate", "found"),
    [
        ({"actor_kind": {"megatron": {"kind": ["megatron"]}}}, {"kind": ["megatron"]}),
        ({"actor_kind": {"native": {"kind": ["megatron"]}}}, {}),
        ({"actor_kind": ["megatron"]}, {}),
        ({"actor_kind": {"megatron": "all"}}, {}),
        ("no table", {}),
    ],
)
def test_a_strangers_row_is_read_as_far_as_it_is_one(gate, found):
    assert _inner(gate, "actor_kind", "megatron") == found
