"""Every dataclass of both protocols survives the trip through JSON, and nothing else is accepted."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samebits.actor import protocol as actor
from samebits.engine import protocol as engine
from samebits.errors import WorkerError
from samebits.spool import from_message, to_message

MESSAGES = [
    value
    for module in (engine, actor)
    for value in vars(module).values()
    if dataclasses.is_dataclass(value) and value.__module__ == module.__name__
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)

# Others may be computing on this machine.
unhurried = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


def instances(hint: Any) -> st.SearchStrategy[Any]:
    scalars = {
        Any: JSON,
        str: st.text(),
        int: st.integers(),
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        type(None): st.none(),
    }
    if dataclasses.is_dataclass(hint):
        return st.builds(hint, **{name: instances(inner) for name, inner in get_type_hints(hint).items()})
    if hint in scalars:
        return scalars[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is list:
        return st.lists(instances(arguments[0]), max_size=4)
    if origin in (dict, Mapping):
        return st.dictionaries(instances(arguments[0]), instances(arguments[1]), max_size=3)
    return st.one_of(*(instances(argument) for argument in arguments))


def test_both_protocols_have_messages() -> None:
    assert {engine.Generated, engine.Request, actor.Tokens, actor.Probed} <= set(MESSAGES)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
@unhurried
@given(data=st.data())
def test_every_message_survives_the_trip(cls: type[Any], data: st.DataObject) -> None:
    value = data.draw(instances(cls))
    text = json.dumps(to_message(value), allow_nan=False)
    again = from_message(cls, json.loads(text))
    assert again == value
    assert json.dumps(to_message(again), allow_nan=False) == text


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
@unhurried
@given(data=st.data())
def test_no_field_may_be_missing_or_unknown(cls: type[Any], data: st.DataObject) -> None:
    message = to_message(data.draw(instances(cls)))
    name = data.draw(st.sampled_from(sorted(message)))
    without = {key: value for key, value in message.items() if key != name}
    with pytest.raises(WorkerError) as caught:
        from_message(cls, without)
    assert (caught.value.field, caught.value.found) == (f"{cls.__name__}.{name}", "nothing")
    with pytest.raises(WorkerError) as caught:
        from_message(cls, {**message, f"{name}_": 0})
    assert (caught.value.field, caught.value.found) == (f"{cls.__name__}.{name}_", "an unknown field")


@unhurried
@given(value=JSON.filter(lambda value: not isinstance(value, dict)))
def test_only_a_mapping_is_a_message(value: Any) -> None:
    with pytest.raises(WorkerError) as caught:
        from_message(engine.Sealed, value)
    assert (caught.value.field, caught.value.accepted) == ("Sealed", "the fields of Sealed")
