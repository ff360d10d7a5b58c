from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from samebits.pins import Allowed, Range, Values

ALLOWED = TypeAdapter(Allowed)


@pytest.mark.parametrize(
    ("accepted", "value", "verdict"),
    [
        ((1,), 1, True),
        ((1,), 1.0, True),
        ((1,), True, False),
        ((True,), 1, False),
        ((True,), True, True),
        ((False,), 0, False),
        ((1.0,), 0.999, False),
        ((0.0,), -0.0, True),
        ((0.0,), float("nan"), False),
        (("auto",), "auto", True),
        (("auto",), "Auto", False),
        (("1",), 1, False),
        ((0, -1), -1, True),
        ((), None, True),
        ((), "", False),
        ((), {}, False),
        ((0,), None, False),
        ((0,), [0], False),
    ],
)
def test_values(accepted, value, verdict):
    assert Values(accepted).accepts(value) is verdict


@pytest.mark.parametrize(
    ("ends", "value", "verdict"),
    [
        ((1, 4), 1, True),
        ((1, 4), 4, True),
        ((1, 4), 0, False),
        ((1, 4), 5, False),
        ((1, 4), 2.0, False),
        ((1, 4), True, False),
        ((0.0, 1.0), 1, True),
        ((0.0, 1.0), 0.5, True),
        ((0.0, 1.0), float("nan"), False),
        ((0.0, 1.0), float("inf"), False),
        ((0.0, 1.0), "0.5", False),
        ((0.0, 1.0), None, False),
    ],
)
def test_range(ends, value, verdict):
    assert Range(*ends).accepts(value) is verdict


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([1, True, "a"], "1 or true or 'a'"),
        ([], "unset"),
        ({"min": 1, "max": 4}, "1 … 4"),
        ([["none"], []], '["none"] or []'),
    ],
)
def test_read_said_and_written_back(data, text):
    allowed = ALLOWED.validate_python(data)
    assert str(allowed) == text
    assert ALLOWED.dump_python(allowed) == data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("auto", "a list of values ([]: must stay unset), or {min = …, max = …}"),
        (True, "a list of values ([]: must stay unset), or {min = …, max = …}"),
        ([[None]], "a list of values ([]: must stay unset), or {min = …, max = …}"),
        ({"min": 1}, "a list of values ([]: must stay unset), or {min = …, max = …}"),
        ({"min": 1, "max": True}, "a list of values ([]: must stay unset), or {min = …, max = …}"),
        ({"min": 1, "max": float("inf")}, "a list of values ([]: must stay unset), or {min = …, max = …}"),
        ({"min": 2, "max": 1}, "min no larger than max"),
        ([float("nan")], "finite numbers"),
    ],
)
def test_malformed(data, message):
    with pytest.raises(ValidationError) as caught:
        ALLOWED.validate_python(data)
    assert [fault["msg"] for fault in caught.value.errors()] == [f"Value error, {message}"]


def test_lists_and_tables_are_compared_value_by_value():
    allowed = ALLOWED.validate_python([{"rms_norm": ["native"]}, ["none"]])
    assert allowed.accepts({"rms_norm": ["native"]})
    assert allowed.accepts(["none"])
    assert not allowed.accepts({"rms_norm": ["native", "c"]})
    assert not allowed.accepts({"rms_norm": ["native"], "silu": ["native"]})
    assert not allowed.accepts({})
    assert not allowed.accepts("none")
