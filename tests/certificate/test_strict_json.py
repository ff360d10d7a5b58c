from __future__ import annotations

import json
from typing import Any

import pytest

from samebits.certificate import strict_json
from samebits.errors import InvalidCertificate

NEXT_STEP = "Do not rely on this certificate; ask its signer for a sound one."


def loads(text: str | bytes, **limits: int) -> Any:
    data = text if isinstance(text, bytes) else text.encode()
    return strict_json.loads(data, source="s", limit=limits.get("limit", 10_000), depth=limits.get("depth", 32))


def test_reads_what_json_is_for() -> None:
    text = '{"a": [1, -1, true, false, null, "é\\u00e9\\ud83d\\ude00"], "b": {}, "c": 9007199254740992}'
    assert loads(text) == {"a": [1, -1, True, False, None, "éé😀"], "b": {}, "c": 2**53}


@pytest.mark.parametrize(
    ("text", "field", "found", "accepted"),
    [
        ('{"a": 1, "a": 1}', "s: a", "a duplicate key", "each key once"),
        ('{"p": [{"x": 1}, {"x": 1, "y": 2, "x": 1}]}', "s: p[1].x", "a duplicate key", "each key once"),
        ('{"\\u0061": 1, "a": 1}', "s: a", "a duplicate key", "each key once"),
        ('{"p": {"q": [0, 1.5]}}', "s: p.q[1]", "'1.5'", "an integer, or a string"),
        ("1.0", "s: top level", "'1.0'", "an integer, or a string"),
        ('{"p": 1e3}', "s: p", "'1e3'", "an integer, or a string"),
        ('{"p": 1E3}', "s: p", "'1E3'", "an integer, or a string"),
        ('{"p": NaN}', "s: p", "'NaN'", "an integer, or a string"),
        ('{"p": Infinity}', "s: p", "'Infinity'", "an integer, or a string"),
        ('{"p": -Infinity}', "s: p", "'-Infinity'", "an integer, or a string"),
        ('{"p": 9007199254740993}', "s: p", "'9007199254740993'", "an integer of magnitude at most 2^53, or a string"),
        (
            '{"p": -9007199254740993}',
            "s: p",
            "'-9007199254740993'",
            "an integer of magnitude at most 2^53, or a string",
        ),
        ('{"p": -0}', "s: p", "'-0'", "an integer of magnitude at most 2^53, or a string"),
        ('{"a b": {"p\\n": 1.5}}', "s: ['a b']['p\\n']", "'1.5'", "an integer, or a string"),
        ('{"p": "\\ud800"}', "s: p", "a lone surrogate", "Unicode text"),
        ('{"\\ud800": 1}', "s: ['\\ud800']", "a lone surrogate in a key", "Unicode text"),
        ("", "s: character 0", "not JSON (Expecting value)", "JSON in UTF-8"),
        ('{"a": 1} x', "s: character 9", "not JSON (Extra data)", "JSON in UTF-8"),
        ('{"a": 1', "s: character 7", "not JSON (Expecting ',' delimiter)", "JSON in UTF-8"),
        ('{"a": "\n"}', "s: character 7", "not JSON (Invalid control character at)", "JSON in UTF-8"),
        (b'{"a": "\xff"}', "s: byte 7", "not UTF-8", "JSON in UTF-8"),
        ("{}".encode("utf-16"), "s: byte 0", "not UTF-8", "JSON in UTF-8"),
    ],
)
def test_refuses(text: str | bytes, field: str, found: str, accepted: str) -> None:
    with pytest.raises(InvalidCertificate) as caught:
        loads(text)
    assert caught.value.to_dict() == {
        "error": "invalid",
        "field": field,
        "found": found,
        "accepted": accepted,
        "next_step": NEXT_STEP,
    }


def test_refuses_long_integers_without_computing_them() -> None:
    with pytest.raises(InvalidCertificate) as caught:
        loads('{"p": ' + "9" * 9_000 + "}")
    assert caught.value.found == repr("9" * 80) + "…"


def test_refuses_large_input_unread() -> None:
    assert loads("[]  ", limit=4) == []
    with pytest.raises(InvalidCertificate) as caught:
        loads("[]   ", limit=4)
    assert str(caught.value) == f"s: found 5 bytes; accepted: at most 4 bytes. {NEXT_STEP}"


@pytest.mark.parametrize("text", ["[[[1]]]", '{"a": {"a": {"a": "]"}}}', '[{"[[[[\\"[": []}]'])
def test_depth_counts_objects_and_arrays_outside_strings(text: str) -> None:
    assert loads(text, depth=3) == json.loads(text)
    with pytest.raises(InvalidCertificate) as caught:
        loads(text, depth=2)
    assert (caught.value.found, caught.value.accepted) == ("nesting deeper than 2", "at most 2 levels")


@pytest.mark.parametrize("text", ["[" * 9_000, '{"a":' * 1_500, '"' + '\\"' * 4_000, "[" + '"a' * 4_000])
def test_hostile_text_is_refused_like_any_other(text: str) -> None:
    with pytest.raises(InvalidCertificate):
        loads(text)


def test_dumps_sorts_keys_and_writes_utf8() -> None:
    assert strict_json.dumps({"b": [1, None, True], "a": "é"}) == '{"a":"é","b":[1,null,true]}'.encode()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (1.5, TypeError, "top level: float has no place in a certificate; write it as a string"),
        ({"a": [0, 1.0]}, TypeError, "a[1]: float has no place in a certificate; write it as a string"),
        ({"a": b""}, TypeError, "a: bytes has no place in a certificate; write it as a string"),
        ({"a": {1: 2}}, TypeError, "a: the key 1 is not a string"),
        ({"a": 2**53 + 1}, ValueError, "a: 9007199254740993 is beyond 2^53; write it as a string"),
        ({"a": "\ud800"}, ValueError, "a: a lone surrogate is not Unicode text"),
    ],
)
def test_dumps_refuses_what_loads_would(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        strict_json.dumps(value)
    assert str(caught.value) == message


def test_dumps_and_loads_agree_on_depth() -> None:
    value: Any = []
    for _ in range(31):
        value = [value]
    assert loads(strict_json.dumps(value).decode()) == value
    with pytest.raises(ValueError, match=r"nesting deeper than 32$"):
        strict_json.dumps([value])
    with pytest.raises(InvalidCertificate):
        loads(json.dumps([value]))
