"""Configurations are read as the framework reads them: parents, interpolations, overrides.

The expected values of inheritance and overrides were compared with NeMo RL's own loader (hydra-core 1.3.8).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from samebits.adapters import files
from samebits.adapters.configuration import ABSENT, Unresolved
from samebits.errors import InputError

FAMILY = {
    "grand.yaml": """
        a: {x: 1, y: {p: 1, q: [1, 2, 3]}}
        b: {k: "${a.x}", l: 5}
        lr: 1e-6
        n: null
        c: {keep: 1}
    """,
    "one.yaml": """
        defaults: grand.yaml
        a: {y: {q: [9]}, z: "${mul:${a.x},3}"}
        b: {_override_: true, only: 2}
    """,
    "sub/two.yaml": """
        a: null
        c: {keep: {deep: 1}}
    """,
    "child.yaml": """
        defaults: [one.yaml, sub/two.yaml]
        a: {new: 1}
        nested: {inner: {_override_: true, v: 1}}
    """,
    "other.yaml": """
        defaults:
          - sub/two.yaml
          - one.yaml
        n: {filled: 3}
    """,
}


@pytest.fixture
def family(tmp_path: Path) -> Path:
    for name, text in FAMILY.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(line[8:] for line in text.splitlines()))
    return tmp_path


def test_parents_are_merged_in_order_and_the_file_last(family: Path) -> None:
    # two.yaml sets a to null, so that of one.yaml's a nothing is left; b is replaced, not merged.
    assert files.nemo_rl(family / "child.yaml").values == {
        "a": {"new": 1},
        "b": {"only": 2},
        "lr": 1e-06,
        "n": None,
        "c": {"keep": {"deep": 1}},
        "nested": {"inner": {"_override_": True, "v": 1}},
    }
    assert files.nemo_rl(family / "other.yaml").values == {
        "a": {"x": 1, "y": {"p": 1, "q": [9]}, "z": 3},
        "b": {"only": 2},
        "lr": 1e-06,
        "n": {"filled": 3},
        "c": {"keep": 1},
    }


def test_each_value_knows_the_file_that_set_it_last(family: Path) -> None:
    read = files.nemo_rl(family / "other.yaml", ["c.keep=2"])
    assert read.where("a.x") == "grand.yaml: a.x"
    assert read.where("a.y.q") == "one.yaml: a.y.q"
    assert read.where("n.filled") == "other.yaml: n.filled"
    assert read.where("c.keep") == "command line: c.keep"
    assert read.where("nowhere") == "other.yaml: nowhere"
    assert read.found("a.z") == "3, through ${mul:${a.x},3}"


def test_parents_in_a_circle(family: Path) -> None:
    (family / "grand.yaml").write_text("defaults: child.yaml\n")
    with pytest.raises(InputError) as caught:
        files.nemo_rl(family / "child.yaml")
    assert str(caught.value) == (
        "child.yaml: defaults: found child.yaml → one.yaml → grand.yaml → child.yaml; "
        "accepted: parents that end somewhere. Break the circle."
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- 1\n", "a list"),
        ("a: 1\na: 2\n", "while constructing a mapping"),
        ("a: {", "while parsing a flow node"),
        ("\xff", "'utf-8' codec"),
        ("7", "Invalid loaded object type: int"),
        ("a: ${\n", "no viable alternative at input '${'"),
        ("x" * ((1 << 20) + 1), "more than 1048576 bytes"),
    ],
)
def test_what_is_no_configuration(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        files.nemo_rl(path)
    assert caught.value.field == "x.yaml"
    assert found in caught.value.found
    assert caught.value.accepted == "a table in YAML, as the framework reads it"


def test_a_missing_parent_is_named(family: Path) -> None:
    (family / "sub" / "two.yaml").unlink()
    with pytest.raises(InputError) as caught:
        files.nemo_rl(family / "child.yaml")
    assert (caught.value.field, caught.value.found) == (str(family / "sub" / "two.yaml"), "No such file or directory")


@pytest.mark.parametrize("defaults", ["3", "[1]", "{a: 1}", "[]", "null"])
def test_parents_that_are_no_paths(tmp_path: Path, defaults: str) -> None:
    (tmp_path / "x.yaml").write_text(f"defaults: {defaults}\n")
    with pytest.raises(InputError) as caught:
        files.nemo_rl(tmp_path / "x.yaml")
    assert caught.value.field == "x.yaml: defaults"


def test_interpolations_in_a_circle() -> None:
    with pytest.raises(InputError) as caught:
        files.nemo_rl({"a": {"x": "${c}", "y": "${c}"}, "c": {"x": "${a}", "y": "${a}"}})
    assert str(caught.value) == (
        "configuration: found tables inside each other without end: interpolations ${...} that lead in a circle; "
        "accepted: interpolations that end in a value. Break the circle."
    )


def test_values_without_a_value_are_kept_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMEBITS_TEST", "1")
    read = files.nemo_rl({"a": "???", "b": "${nowhere}", "c": "${oc.env:SAMEBITS_TEST}", "d": "${mul:x,y}"})
    assert read.get("a") == Unresolved("???", "which must be set before the run")
    assert read.get("c") == Unresolved(
        "${oc.env:SAMEBITS_TEST}", "which depends on the environment of whoever starts the run"
    )
    assert isinstance(read.get("b"), Unresolved)
    assert isinstance(read.get("d"), Unresolved)
    assert read.get("e") is ABSENT


def test_a_variable_is_seen_through_other_interpolations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMEBITS_TEST", "1")
    read = files.nemo_rl(
        {
            "t": {"v": "${oc.env:SAMEBITS_TEST}", "near": "${.v}", "far": "${.near}"},
            "other": {"select": "${oc.select:t.far,3}", "product": "${mul:${t.x},2}", "circle": "${.circle}"},
        }
    )
    for field in ("t.near", "t.far", "other.select"):
        assert "which depends on the environment" in str(read.get(field))
    assert "which cannot be resolved" in str(read.get("other.product"))
    assert "which cannot be resolved" in str(read.get("other.circle"))


def test_hydras_own_defaults_must_be_composed_first(tmp_path: Path) -> None:
    (tmp_path / "ppo.yaml").write_text("defaults:\n  - actor@actor_rollout_ref.actor: dp_actor\n  - _self_\n")
    with pytest.raises(InputError) as caught:
        files.composed(tmp_path / "ppo.yaml")
    assert caught.value.to_dict() == {
        "error": "input",
        "field": "ppo.yaml: defaults",
        "found": "parents that have not been merged",
        "accepted": "a composed configuration",
        "next_step": "Give NeMo RL's as a file, beside its parents; let Hydra print verl's: "
        "python -m verl.trainer.main_ppo … --cfg job > composed.yaml",
    }
    with pytest.raises(InputError):
        files.nemo_rl({"defaults": "x.yaml"})


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("++t.x=1", 1),
        ("++t.x=-1", -1),
        ("++t.x=1e-6", 1e-06),
        ("++t.x=1_000", 1000),
        ("++t.x=true", True),
        ("++t.x=NULL", None),
        ("++t.x=None", "None"),
        ("++t.x=", ""),
        ("++t.x=???", Unresolved("???", "which must be set before the run")),
        ("++t.x=a b", "a b"),
        ("++t.x='1'", "1"),
        ("++t.x=a/b.yaml", "a/b.yaml"),
        ("++t.x=[1,[a,{b: c}]]", [1, ["a", {"b": "c"}]]),
        ("++t.x={mode: 0, custom_ops: [none]}", {"mode": 0, "custom_ops": ["none"]}),
        ("++t.x=${t.y}", 5),
        ("+t.x=2", 2),
        ("t.y=6", 5),
    ],
)
def test_overrides_are_hydras(override: str, value: Any) -> None:
    read = files.nemo_rl({"t": {"y": 5, "z": 1}}, [override])
    assert read.get("t.x" if ".x" in override else "t.y") == (6 if override == "t.y=6" else value)


def test_a_table_is_merged_and_a_list_replaced() -> None:
    read = files.nemo_rl({"t": {"a": 1, "l": [1, 2]}}, ["++t={b: 2}", "t.l=[3]", "~t.a"])
    assert read.values == {"t": {"b": 2, "l": [3]}}


@pytest.mark.parametrize(
    ("override", "accepted", "next_step"),
    [
        ("t.x=1", "a field that the configuration has", "Correct the key, or add the field: ++t.x=1"),
        ("+t.y=1", "a field that is not there yet", "Replace it: ++t.y=1"),
        ("~t.x", "a field that is there", "Leave the override out."),
        ("~t.y=7", "the value that is there, 5", "Say ~t.y"),
        ("t.y", "key=value, ++key=value (add or replace), +key=value (add) or ~key (delete), as in Hydra",
         "Correct the override."),
        ("group@t.y=7", "key=value, ++key=value (add or replace), +key=value (add) or ~key (delete), as in Hydra",
         "Correct the override."),
        ("t.y=1,2", "one value: a number, text, true, false, null, [list] or {table: …}", "Correct the override."),
        ("t.y=range(1,3)", "a value, no function call of Hydra's", "Correct the override."),
        ("t.y=[${t.z}]", "an interpolation ${...} outside of lists, tables and quotes", "Correct the override."),
    ],
)  # fmt: skip
def test_overrides_that_do_not_apply(override: str, accepted: str, next_step: str) -> None:
    with pytest.raises(InputError) as caught:
        files.nemo_rl({"t": {"y": 5}}, [override])
    assert caught.value.to_dict() == {
        "error": "input",
        "field": f"override {override!r}",
        "found": "not applicable",
        "accepted": accepted,
        "next_step": next_step,
    }


def test_a_configuration_of_omegaconf_is_taken_as_it_is() -> None:
    read = files.nemo_rl(OmegaConf.create({"a": {"x": 1}, "b": "${a.x}", "c": "???"}))
    assert read.values == {"a": {"x": 1}, "b": 1, "c": Unresolved("???", "which must be set before the run")}
    assert read.found("b") == "1, through ${a.x}"
