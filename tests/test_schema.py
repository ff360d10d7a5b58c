from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Self

import pytest
from pydantic import Field, model_validator

from samebits import schema
from samebits.errors import InputError
from samebits.schema import Closed, Conflict, load_toml, locate, parse, parse_toml, refuse


class Inner(Closed):
    width: Annotated[int, Field(ge=1)]
    height: int = 1


class Outer(Closed):
    name: str
    inner: Inner | None = None
    many: list[Inner] = Field(default_factory=list)
    ratio: float = 1.0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        refuse(
            Conflict(f"many[{number}].height", found=one.height, accepted=f"other than width = {one.width}")
            for number, one in enumerate(self.many)
            if one.height == one.width
        )
        return self


def fault(data):
    with pytest.raises(InputError) as caught:
        parse(Outer, data, source="o.toml")
    return caught.value


def test_good_data_is_parsed():
    assert parse(Outer, {"name": "x", "inner": {"width": 2}}, source="o.toml") == Outer(name="x", inner=Inner(width=2))


def test_instances_do_not_change():
    outer = Outer(name="x")
    with pytest.raises(ValueError, match="Instance is frozen"):
        outer.name = "y"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"nam": "x"}, "o.toml: name: found nothing; accepted: a value. Add the key. Also wrong in this file: nam."),
        (
            {"name": "x", "nmae": "y"},
            "o.toml: nmae: found an unknown key; accepted: inner, many, name, ratio. Did you mean 'name'?",
        ),
        (
            {"name": "x", "zzz": 1},
            "o.toml: zzz: found an unknown key; accepted: inner, many, name, ratio. Remove it.",
        ),
        (
            {"name": "x", "inner": {"width": 1, "hieght": 2}},
            "o.toml: inner.hieght: found an unknown key; accepted: height, width. Did you mean 'height'?",
        ),
        (
            {"name": "x", "many": [{"width": 1, "height": 2}, {"wid": 2}]},
            (
                "o.toml: many[1].width: found nothing; accepted: a value. Add the key."
                " Also wrong in this file: many[1].wid."
            ),
        ),
        (
            {"name": "x", "inner": {"width": 0}},
            "o.toml: inner.width: found 0; accepted: greater than or equal to 1. Correct the value.",
        ),
        (
            {"name": "x", "inner": {"width": "2"}},
            "o.toml: inner.width: found '2'; accepted: a valid integer. Correct the value.",
        ),
        (
            {"name": "x", "inner": {"width": True}},
            "o.toml: inner.width: found True; accepted: a valid integer. Correct the value.",
        ),
        (
            {"name": "x", "ratio": float("nan")},
            "o.toml: ratio: found nan; accepted: a finite number. Correct the value.",
        ),
        (
            [],
            "o.toml: found []; accepted: a valid dictionary or instance of Outer. Correct the value.",
        ),
        (
            {"name": "x", "many": [{"width": 3, "height": 3}, {"width": 4}, {"width": 1}]},
            (
                "o.toml: many[0].height: found 3; accepted: other than width = 3. Correct one of the two."
                " Also wrong in this file: many[2].height."
            ),
        ),
    ],
)
def test_fault_is_said_the_kits_way(data, message):
    assert str(fault(data)) == message


def test_long_values_are_cut():
    assert fault({"name": "x", "inner": {"width": "9" * 500}}).found == "'" + "9" * 119


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"name = ", "not TOML (Invalid value (at end of document))"),
        (b"name = 'x'\nname = 'y'\n", "not TOML (Cannot overwrite a value (at line 2, column 11))"),
        (b"\xff", "not TOML ('utf-8' codec can't decode byte 0xff in position 0: invalid start byte)"),
        (
            b"name = " + b"9" * 5000,
            (
                "not TOML (Exceeds the limit (4300 digits) for integer string conversion: value has 5000 digits; "
                "use sys.set_int_max_str_digits() to increase the limit)"
            ),
        ),
    ],
)
def test_what_is_not_toml(content, found):
    with pytest.raises(InputError) as caught:
        parse_toml(Outer, content, source="o.toml")
    assert (caught.value.field, caught.value.found) == ("o.toml", found)


def test_deep_nesting_is_no_crash():
    with pytest.raises(InputError) as caught:
        parse_toml(Outer, b"name = " + b"[" * 100_000, source="o.toml")
    assert caught.value.found.startswith("not TOML (")


def test_unreadable_files(tmp_path):
    with pytest.raises(InputError) as caught:
        load_toml(Outer, tmp_path / "absent.toml")
    assert caught.value.found == "No such file or directory"
    os.mkfifo(tmp_path / "pipe.toml")
    for nothing_to_read in (tmp_path, tmp_path / "pipe.toml", Path("/dev/zero")):
        with pytest.raises(InputError) as caught:
            load_toml(Outer, nothing_to_read)
        assert caught.value.found == "not a regular file"
    with pytest.raises(InputError) as caught:
        load_toml(Outer, Path("a\0.toml"))
    assert caught.value.found == "embedded null byte"
    (tmp_path / "large.toml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(InputError) as caught:
        load_toml(Outer, tmp_path / "large.toml")
    assert caught.value.found == "more than 1048576 bytes"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Each of these once took minutes, or ended in an error of Python's own.
        (b".".join([b"a"] * 100_000) + b" = 1", "o.toml: line 1: found 99999 dots; accepted: at most 128 in one line."),
        (b"name = 0x" + b"f" * 10_000, "o.toml: name: found int too large to show; accepted: a valid string."),
        (b"#" * (2**20 + 1), "o.toml: found 1048577 bytes; accepted: at most 1048576 bytes."),
        (
            b'name = "x"\n"\\u001b[2J" = 1',
            "o.toml: \ufffd[2J: found an unknown key; accepted: inner, many, name, ratio.",
        ),
    ],
    ids=["dots", "digits", "size", "control characters"],
)
def test_hostile_toml(text, message):
    with pytest.raises(InputError) as caught:
        parse_toml(Outer, text, source="o.toml")
    assert str(caught.value).startswith(message)


def test_the_first_twenty_further_faults_are_named():
    next_step = fault({"name": "x"} | {f"key{number}": 1 for number in range(30)}).next_step
    assert next_step.endswith("key19, key20 and 9 more.")


@pytest.fixture
def two_folders(tmp_path, monkeypatch):
    """Two ``recipes/`` folders, the working directory's before the packaged one."""
    for root, names in (("here", ["alpha", "beta"]), ("packaged", ["beta", "gamma"])):
        folder = tmp_path / root / "recipes"
        folder.mkdir(parents=True)
        for name in names:
            (folder / f"{name}.toml").touch()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(schema, "_CHECKOUT", tmp_path / "nowhere")
    monkeypatch.setattr(schema, "_PACKAGED", tmp_path / "packaged")
    return tmp_path


def test_an_id_is_found_in_the_first_folder_that_has_it(two_folders):
    assert locate("recipes", "beta", field="recipe") == two_folders / "here" / "recipes" / "beta.toml"
    assert locate("recipes", "gamma", field="recipe") == two_folders / "packaged" / "recipes" / "gamma.toml"


@pytest.mark.usefixtures("two_folders")
@pytest.mark.parametrize("name", ["beta.toml", "elsewhere/beta", Path("beta")])
def test_a_path_is_taken_as_it_is(name):
    assert locate("recipes", name, field="recipe") == Path(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("alpah", "recipe: found 'alpah'; accepted: alpha, beta, gamma. Did you mean 'alpha'?"),
        (
            "zzz",
            "recipe: found 'zzz'; accepted: alpha, beta, gamma. Choose one of these, or give the path of a TOML file.",
        ),
        ("", "recipe: found ''; accepted: alpha, beta, gamma. Choose one of these, or give the path of a TOML file."),
    ],
)
@pytest.mark.usefixtures("two_folders")
def test_an_unknown_id_names_its_nearest_neighbour(name, message):
    with pytest.raises(InputError) as caught:
        locate("recipes", name, field="recipe")
    assert str(caught.value) == message


@pytest.mark.usefixtures("two_folders")
def test_no_folder_at_all():
    with pytest.raises(InputError) as caught:
        locate("lock", "cpu", field="row")
    assert caught.value.accepted == "the path of a TOML file; no folder lock/ was found"
