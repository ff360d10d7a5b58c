"""Seeded mutation: of bytes, of JSON by its structure, of TOML by its lines."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any, Final

TOKENS: Final = [
    *(
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b".",
        b"=",
        b"#",
        b"'''",
        b'"""',
        b"[[",
        b"]]",
        b"\n",
        b"\r",
        b"\0",
    ),
    *(
        b"null",
        b"true",
        b"false",
        b"NaN",
        b"Infinity",
        b"-0",
        b"0",
        b"1",
        b"-1",
        b"1.0",
        b"1e999",
        b"0x1f",
        b"1_0",
        b"inf",
    ),
    *(b"9007199254740993", b"18446744073709551616", b"9" * 400, b"1e-400", b"2026-11-30", b"07:32:00"),
    *(b"\\u0000", b"\\ud800", b"\\udc00", b"\xff", b"\xc0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\x1b[2J"),
    *(b"../", b"/", b"..", b"[" * 200, b"{" * 200, b"a." * 50, b'{"a":' * 50, b" " * 1000),
]
"""What readers stumble over."""

VALUES: Final[list[Any]] = [
    *(None, True, False, 0, 1, -1, 2, 2**31, 2**32, 2**53, 2**53 + 1, -(2**53) - 1, 2**63, 2**64, 10**400),
    *(0.0, -0.0, 0.5, 1.0, 1e308, 5e-324, float("inf"), float("nan")),
    *("", "0", "1", "true", "null", "\0", "\ud800", "\u202e", "x" * 5000, "../../x", "a.b", "passed", "failed"),
    *([], {}, [[]], [None], {"": None}, {"a": {"a": {"a": {}}}}, [0] * 100),
]
"""What stands where something else should."""


def mutated(random: Random, data: bytes) -> bytes:
    """``data`` with one to four changes of its bytes."""
    content = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        place = random.randrange(len(content) + 1)
        length = min(random.choice((1, 1, 2, 8, 64, 1000)), len(content) - place)
        kind = random.randrange(7)
        if kind == 0 and place < len(content):
            content[place] ^= 1 << random.randrange(8)
        elif kind == 1 and place < len(content):
            content[place] = random.randrange(256)
        elif kind == 2:
            del content[place : place + length]
        elif kind == 3:
            content[place:place] = content[place : place + length]
        elif kind == 4:
            other = random.randrange(len(content) + 1)
            content[place : place + length] = content[other : other + length]
        elif kind == 5:
            content[place:place] = random.choice(TOKENS)
        else:
            content[place : place + length] = random.choice(TOKENS)
    return bytes(content)


def cut(random: Random, data: bytes) -> bytes:
    """The beginning of ``data``."""
    return data[: random.randrange(len(data) + 1)]


def json_text(value: Any) -> bytes:
    """As JSON, with whatever JSON has no word for as Python writes it."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


def mutated_json(random: Random, value: Any) -> Any:
    """A copy of ``value`` with one to three changes of its structure."""
    changed = copy.deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = list(_places(changed))
        if not places:
            return random.choice(VALUES)
        holder, key = random.choice(places)
        _change(random, holder, key, [holder[key] for holder, key in places])
    return changed


def mutated_lines(random: Random, text: bytes) -> bytes:
    """TOML with one to three lines dropped, doubled, moved, or with another value."""
    lines = text.split(b"\n")
    for _ in range(random.choice((1, 1, 2, 3))):
        index = random.randrange(len(lines))
        kind = random.randrange(5)
        if kind == 0:
            del lines[index]
        elif kind == 1:
            lines.insert(index, lines[index])
        elif kind == 2:
            other = random.randrange(len(lines))
            lines[index], lines[other] = lines[other], lines[index]
        elif kind == 3 and b"=" in lines[index]:
            lines[index] = lines[index].split(b"=")[0] + b"= " + _toml_value(random)
        else:
            lines.insert(index, random.choice((b"[a]", b"[[a]]", b"a = 1", b"a.b.c = 2", b"[model]", b'"" = 1')))
        if not lines:
            return b""
    return b"\n".join(lines)


def _toml_value(random: Random) -> bytes:
    value = random.choice(VALUES)
    if value is None or isinstance(value, dict):
        return random.choice((b"{}", b"{ a = 1 }", b"nan", b"-inf", b"2026-11-30T00:00:00Z", b"[1, [2]]"))
    return json.dumps(value).encode("utf-8", "replace")


def _places(value: Any) -> Any:
    """Every (container, key) in ``value``."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _change(random: Random, holder: Any, key: Any, others: list[Any]) -> None:
    kind = random.randrange(6)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = copy.deepcopy(random.choice(others))
    elif kind == 2 and isinstance(holder, dict):
        holder[random.choice(("", "note", "\ud800", "a" * 300, str(key).upper(), f"{key} "))] = holder.pop(key)
    elif kind == 3 and isinstance(holder, list):
        holder.insert(random.randrange(len(holder) + 1), copy.deepcopy(random.choice(others)))
    elif kind == 4 and isinstance(holder[key], int | str) and not isinstance(holder[key], bool):
        holder[key] = _near(random, holder[key])
    else:
        holder[key] = copy.deepcopy(random.choice(VALUES))


def _near(random: Random, value: int | str) -> int | str:
    if isinstance(value, int):
        return value + random.choice((-1, 1, 2**32))
    place = random.randrange(len(value) + 1)
    return value[:place] + random.choice(("", "0", "a", " ", "\n", "\u00e9")) + value[place + random.randrange(2) :]
