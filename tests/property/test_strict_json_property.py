from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.certificate import strict_json
from samebits.errors import InvalidCertificate

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"))
KEYS = st.text(st.characters(codec="utf-8"))
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20
)


def loads(data: bytes) -> Any:
    return strict_json.loads(data, source="s", limit=10**6)


@settings(deadline=None)  # a time limit would be a timing assertion
@given(VALUES)
def test_what_is_written_is_read_back(value: Any) -> None:
    data = strict_json.dumps(value)
    assert loads(data) == value
    assert strict_json.dumps(loads(data)) == data


@settings(deadline=None)
@given(VALUES)
def test_any_writer_will_do(value: Any) -> None:
    assert loads(json.dumps(value, indent=1).encode()) == value


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,\\01.eE-tfn ', max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = loads(data)
    except InvalidCertificate:
        return
    assert json.loads(data) == value
    assert loads(strict_json.dumps(value)) == value


@settings(deadline=None)
@given(VALUES, st.floats())
def test_a_float_is_refused_wherever_it_is(value: Any, number: float) -> None:
    with pytest.raises(InvalidCertificate):
        loads(json.dumps({"value": value, "number": [number]}).encode())
    with pytest.raises(TypeError):
        strict_json.dumps({"value": value, "number": [number]})
