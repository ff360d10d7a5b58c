"""JSON without the parts that two readers may understand differently.

Duplicate keys, floats, integers beyond 2^53 (RFC 7493, I-JSON) and lone surrogates are refused on the way in and on the
way out.  No canonical form is needed beyond that: DSSE signs bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from samebits.errors import InvalidCertificate

INTEGER_LIMIT: Final = 2**53
DEPTH_LIMIT: Final = 32
DO_NOT_RELY: Final = "Do not rely on this certificate; ask its signer for a sound one."

_LONGEST_INTEGER = len(str(-INTEGER_LIMIT))
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
# A string (also one that never ends, so that no quote is scanned twice) or a bracket.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)

Path = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fault:
    """Stands in the parsed value where something was refused, so that the error can name the path."""

    found: str
    accepted: str


def loads(data: bytes, *, source: str, limit: int, depth: int = DEPTH_LIMIT) -> Any:
    """The value of the JSON text ``data``: dicts, lists, str, int, bool and None.

    ``limit`` is in bytes, ``depth`` in nested objects and arrays; ``source`` names the document in errors.

    Raises:
        InvalidCertificate: too large, not UTF-8, not JSON, nested too deeply, a duplicate key, a float, an integer
            beyond 2^53, a string that is no Unicode text.  The field names the path or the offset.
    """
    if len(data) > limit:
        raise invalid(source, found=f"{len(data)} bytes", accepted=f"at most {limit} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid(f"{source}: byte {error.start}", found="not UTF-8", accepted="JSON in UTF-8") from None
    _check_depth(text, source, depth)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_float=_refuse_float,
            parse_constant=_refuse_float,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        where = f"{source}: character {error.pos}"
        raise invalid(where, found=f"not JSON ({error.msg})", accepted="JSON in UTF-8") from None
    except RecursionError:
        # Only text that is no JSON gets past the depth check and here.
        raise invalid(source, found="not JSON", accepted="JSON in UTF-8") from None
    for path, fault in _faults(value, ()):
        raise invalid(f"{source}: {dotted(path)}", found=fault.found, accepted=fault.accepted)
    return value


def dumps(value: Any) -> bytes:
    """``value`` as JSON in UTF-8, keys sorted, no spaces.  Whatever comes out, :func:`loads` reads back.

    Raises:
        TypeError: ``value`` holds a float, or anything else but dict, list, tuple, str, int, bool and None.
        ValueError: an integer beyond 2^53, a string that is no Unicode text, nesting deeper than 32.
    """
    _check_writable(value, ())
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def invalid(field: str, *, found: object, accepted: object) -> InvalidCertificate:
    """The error of this room: every one of them leads to the same next step."""
    return InvalidCertificate(field, found=found, accepted=accepted, next_step=DO_NOT_RELY)


def closed_object(value: Any, where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """``value`` if it is an object with exactly ``keys``.

    Raises:
        InvalidCertificate: not an object, a key too many, a key missing.
    """
    if not isinstance(value, dict):
        raise invalid(where, found=kind(value), accepted="an object")
    for key in value:
        if key not in keys:
            raise invalid(f"{where}{_step(key)}", found="an unknown key", accepted=", ".join(keys))
    for key in keys:
        if key not in value:
            raise invalid(f"{where}{_step(key)}", found="nothing", accepted="a value")
    return value


def array(value: Any, where: str) -> list[Any]:
    """``value`` if it is an array.

    Raises:
        InvalidCertificate: it is not.
    """
    if not isinstance(value, list):
        raise invalid(where, found=kind(value), accepted="an array")
    return value


def string(value: Any, where: str) -> str:
    """``value`` if it is a string.

    Raises:
        InvalidCertificate: it is not.
    """
    if not isinstance(value, str):
        raise invalid(where, found=kind(value), accepted="a string")
    return value


def quoted(text: str) -> str:
    """Text from a file nobody vouches for, made safe for a terminal and short."""
    return repr(text) if len(text) <= 80 else repr(text[:80]) + "…"  # noqa: PLR2004 - one terminal line


def kind(value: Any) -> str:
    """What ``value`` is, in JSON's words."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number"}
    return names.get(type(value), "null" if value is None else type(value).__name__)


def dotted(path: Path) -> str:
    """``("a", 0, "b c")`` as ``a[0]['b c']``."""
    return "".join(_step(part) for part in path).removeprefix(".") or "top level"


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _PLAIN_KEY.fullmatch(part) else f"[{quoted(part)}]"


def _check_depth(text: str, source: str, limit: int) -> None:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth > limit:
                where = f"{source}: character {match.start()}"
                raise invalid(where, found=f"nesting deeper than {limit}", accepted=f"at most {limit} levels")
        elif match[0] in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        result[key] = _Fault(found="a duplicate key", accepted="each key once") if key in result else value
    return result


def _refuse_float(text: str) -> _Fault:
    return _Fault(found=quoted(text), accepted="an integer, or a string")


def _integer(text: str) -> int | _Fault:
    # The length first: int() of a long text is slow.  "-0" is a float to some readers.
    if len(text) > _LONGEST_INTEGER or text == "-0" or abs(int(text)) > INTEGER_LIMIT:
        return _Fault(found=quoted(text), accepted="an integer of magnitude at most 2^53, or a string")
    return int(text)


def _faults(value: Any, path: Path) -> Iterator[tuple[Path, _Fault]]:
    if isinstance(value, _Fault):
        yield path, value
    elif isinstance(value, str):
        if not _is_text(value):
            yield path, _Fault(found="a lone surrogate", accepted="Unicode text")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not _is_text(key):
                yield (*path, key), _Fault(found="a lone surrogate in a key", accepted="Unicode text")
            yield from _faults(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults(item, (*path, index))


def _check_writable(value: Any, path: Path) -> None:
    if isinstance(value, dict | list | tuple):
        if len(path) >= DEPTH_LIMIT:
            raise ValueError(f"{dotted(path)}: nesting deeper than {DEPTH_LIMIT}")
        _check_writable_items(value, path)
    elif isinstance(value, str):
        if not _is_text(value):
            raise ValueError(f"{dotted(path)}: a lone surrogate is not Unicode text")
    elif isinstance(value, int):
        if abs(value) > INTEGER_LIMIT:
            raise ValueError(f"{dotted(path)}: {value} is beyond 2^53; write it as a string")
    elif value is not None:
        raise TypeError(f"{dotted(path)}: {type(value).__name__} has no place in a certificate; write it as a string")


def _check_writable_items(value: dict[Any, Any] | list[Any] | tuple[Any, ...], path: Path) -> None:
    if not isinstance(value, dict):
        for index, item in enumerate(value):
            _check_writable(item, (*path, index))
        return
    for key, item in value.items():
        if not isinstance(key, str):
            raise TypeError(f"{dotted(path)}: the key {key!r} is not a string")
        _check_writable(key, (*path, key))
        _check_writable(item, (*path, key))


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
