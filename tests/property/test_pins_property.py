"""Rows and locks, whatever is in them: written and read back they are the same."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from samebits.pins import Allowed, Range
from samebits.pins.content import content_digest, entries
from samebits.pins.hashed import Pin, parse, render

ALLOWED = TypeAdapter(Allowed)
SCALARS = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
ANYTHING = SCALARS | st.none() | st.floats() | st.lists(st.integers()) | st.dictionaries(st.text(), st.integers())
HASHES = st.lists(st.text("0123456789abcdef", min_size=64, max_size=64), min_size=1, max_size=3, unique=True)
NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True).filter(lambda name: "--" not in name)


@given(st.lists(SCALARS))
def test_a_list_accepts_its_own_values(values):
    allowed = ALLOWED.validate_python(values)
    assert all(allowed.accepts(value) for value in values)
    assert ALLOWED.dump_python(allowed) == values


@given(st.lists(SCALARS), ANYTHING)
def test_a_list_accepts_nothing_else(values, other):
    allowed = ALLOWED.validate_python(values)
    if other is None:
        assert allowed.accepts(other) is (values == [])
    elif allowed.accepts(other):
        assert any(other == value and isinstance(other, bool) == isinstance(value, bool) for value in values)


@given(st.integers(), st.integers(), ANYTHING)
def test_a_whole_range_accepts_whole_numbers_inside(first, second, value):
    low, high = sorted((first, second))
    inside = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    assert Range(low, high).accepts(value) is inside


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.floats())
def test_a_range_never_accepts_what_is_no_number(first, second, value):
    low, high = sorted((first, second))
    assert Range(low, high).accepts(value) is (not math.isnan(value) and low <= value <= high)


@given(st.dictionaries(NAMES, HASHES))
def test_a_lock_is_read_back(found):
    pins = [Pin(name=name, version="1.0", marker="", hashes=tuple(sorted(hashes))) for name, hashes in found.items()]
    text = render(pins, comment="a comment\nof two lines")
    assert parse(text, source="x.txt") == sorted(pins, key=lambda pin: pin.name)


@given(st.permutations([f"kit/{letter}.so,sha256={letter * 43},1" for letter in "ABCDEF"]))
def test_content_does_not_depend_on_the_order_of_record(lines):
    assert content_digest(entries("\n".join(lines))) == content_digest(entries("\n".join(sorted(lines))))
