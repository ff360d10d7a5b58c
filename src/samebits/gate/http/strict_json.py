"""JSON as two readers must understand it alike: the gate and the server behind it.

Python's own reader, which the server uses, takes the last of duplicate keys, NaN, Infinity, numbers that overflow to
infinity, a byte order mark and UTF-16.  Each of them is refused here.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

from samebits.errors import GateError

DEPTH_LIMIT: Final = 64
"""Nested objects and arrays; a JSON schema of a tool nests about twenty."""

# A string (also one that never ends, so that no quote is scanned twice) or a bracket.
_STRING_OR_BRACKET: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)


class _Refused(ValueError):
    """Raised inside the parser's hooks; carries what was found."""


def loads(data: bytes) -> dict[str, Any]:
    """The JSON object in ``data``.

    Raises:
        GateError: empty, not UTF-8, not JSON, no object, nested too deeply, a duplicate key, a number that is not
            finite.  The field is ``body``, or the duplicate key.
    """
    if not data:
        raise _invalid("an empty body")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _invalid(f"bytes that are not UTF-8 (at {error.start})") from None
    _check_depth(data)
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_float=_finite, parse_constant=_constant)
    except _Refused as refused:
        raise _invalid(str(refused)) from None
    except (ValueError, RecursionError) as error:
        # ValueError also for a whole number of more than 4,300 digits.
        raise _invalid(f"not JSON ({error})"[:200]) from None
    if not isinstance(value, dict):
        raise _invalid(f"JSON, but {type(value).__name__}")
    return value


def _check_depth(data: bytes) -> None:
    if data.count(b"[") + data.count(b"{") <= DEPTH_LIMIT:
        return
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(data):
        if match[0] in b"[{":
            depth += 1
            if depth > DEPTH_LIMIT:
                raise _invalid(f"nesting deeper than {DEPTH_LIMIT}")
        elif match[0] in b"]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"the key {key[:60]!r} twice in one object")
            seen.add(key)
    return result


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Refused(f"the number {text[:40]}, which is infinite as a double")
    return number


def _constant(text: str) -> NoReturn:
    raise _Refused(f"the number {text}")


def _invalid(found: str) -> GateError:
    return GateError(
        "body",
        found=found,
        accepted=f"one JSON object in UTF-8, each key once, numbers finite, nested at most {DEPTH_LIMIT} deep",
        next_step="Send the request as plain JSON.",
    )
