"""What the codec refuses, with the path in the message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from samebits.engine.protocol import Counters, Generated, Sealed, Trajectory
from samebits.errors import WorkerError
from samebits.spool import from_message, to_message


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner:
    name: str
    rows: list[list[int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outer:
    flag: bool
    seconds: float
    kind: Literal["a", "b", 1]
    inner: Inner
    by_name: Mapping[str, Inner]
    maybe: int | None = None
    anything: Any = None


GOOD: dict[str, Any] = {
    "flag": True,
    "seconds": 0.5,
    "kind": "a",
    "inner": {"name": "x", "rows": [[1, 2], []]},
    "by_name": {"y": {"name": "y", "rows": []}},
    "maybe": None,
    "anything": [{"deep": 1}],
}


def laid_over(changes: dict[str, Any]) -> dict[str, Any]:
    return {**GOOD, **changes}


def test_both_ways() -> None:
    outer = Outer(
        flag=True,
        seconds=0.5,
        kind="a",
        inner=Inner(name="x", rows=[[1, 2], []]),
        by_name={"y": Inner(name="y", rows=[])},
        anything=[{"deep": 1}],
    )
    assert to_message(outer) == GOOD
    assert from_message(Outer, GOOD) == outer


def test_an_integer_is_a_number_and_becomes_a_float() -> None:
    assert repr(from_message(Outer, laid_over({"seconds": 2})).seconds) == "2.0"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"flag": 1}, "Outer.flag: found int 1; accepted: true or false"),
        ({"seconds": True}, "Outer.seconds: found bool True; accepted: a number"),
        ({"seconds": "1"}, "Outer.seconds: found str '1'; accepted: a number"),
        ({"kind": "c"}, "Outer.kind: found str 'c'; accepted: 'a' or 'b' or 1"),
        ({"kind": True}, "Outer.kind: found bool True; accepted: 'a' or 'b' or 1"),
        ({"maybe": "1"}, "Outer.maybe: found str '1'; accepted: an integer"),
        ({"inner": []}, "Outer.inner: found list []; accepted: the fields of Inner"),
        ({"inner": {"name": "x"}}, "Outer.inner.rows: found nothing; accepted: a value"),
        ({"inner": {"name": "x", "rows": [[1], [2, True]]}},
         "Outer.inner.rows[1][1]: found bool True; accepted: an integer"),
        ({"inner": {"name": "x", "rows": [[1], {}]}}, "Outer.inner.rows[1]: found dict {}; accepted: a list"),
        ({"inner": {"name": None, "rows": []}}, "Outer.inner.name: found null; accepted: text"),
        ({"inner": {"name": "x", "rows": [], "nane": 1}},
         "Outer.inner.nane: found an unknown field; accepted: name, rows"),
        ({"by_name": []}, "Outer.by_name: found list []; accepted: a mapping"),
        ({"by_name": {"z": {"name": 1, "rows": []}}}, "Outer.by_name.z.name: found int 1; accepted: text"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkerError) as caught:
        from_message(Outer, laid_over(changes))
    next_step = "Install the same samebits in the parent's and in the worker's environment."
    assert str(caught.value) == f"{message}. {next_step}"


def test_a_field_with_a_default_is_not_optional() -> None:
    data = {key: value for key, value in GOOD.items() if key != "maybe"}
    with pytest.raises(WorkerError) as caught:
        from_message(Outer, data)
    assert (caught.value.field, caught.value.found) == ("Outer.maybe", "nothing")


def test_a_long_value_is_cut() -> None:
    with pytest.raises(WorkerError) as caught:
        from_message(Outer, laid_over({"flag": "x" * 1000}))
    assert caught.value.found == "str '" + "x" * 79


@pytest.mark.parametrize(
    ("anything", "path", "found"),
    [
        ({1: 2}, "Outer.anything: a key", "int 1"),
        ([0, {"a": (1, {2})}], "Outer.anything[1].a[1]", "set {2}"),
        (float("inf"), "Outer.anything", "float inf"),
    ],
)
def test_what_is_not_json_is_named_before_it_is_sent(anything: Any, path: str, found: str) -> None:
    outer = from_message(Outer, laid_over({"anything": anything}))
    with pytest.raises(WorkerError) as caught:
        to_message(outer)
    assert (caught.value.field, caught.value.found) == (path, found)


def test_the_engines_largest_message_both_ways() -> None:
    generated = Generated(
        trajectories=[
            Trajectory(
                request_id="r0",
                token_ids=list(range(2000)),
                finish_reason="stop",
                weight_version_start=1,
                weight_version_end=1,
            )
        ],
        sealed=Sealed(commitment="ab", tokens=2000, seconds=1.25),
        counters=Counters(**dict.fromkeys(Counters.__dataclass_fields__, 3)),
        batch_sizes=[4, 3],
    )
    assert from_message(Generated, to_message(generated)) == generated
    data = to_message(generated)
    data["trajectories"][0]["finish_reason"] = "tired"
    with pytest.raises(WorkerError) as caught:
        from_message(Generated, data)
    assert caught.value.field == "Generated.trajectories[0].finish_reason"
    assert caught.value.accepted == "'stop' or 'length' or 'cancelled'"


def test_only_dataclass_instances_are_messages() -> None:
    with pytest.raises(TypeError, match=r"^to_message takes a dataclass instance, not dict$"):
        to_message({})


@dataclass
class Impossible:
    pair: tuple[int, str]


@dataclass
class Ambiguous:
    either: int | str


def test_fields_that_no_message_carries_are_the_programmers_fault() -> None:
    with pytest.raises(TypeError, match=r"^no message can carry a field of type tuple\[int, str\]$"):
        from_message(Impossible, {})
    with pytest.raises(TypeError, match=r"^no message can carry a choice between"):
        from_message(Ambiguous, {})
