"""Thrift's compact protocol, as far as Parquet uses it, read strictly.

https://github.com/apache/thrift, ``doc/specs/thrift-compact-protocol.md``.  A struct becomes a dict by field id; no
field may stand there twice, and what Parquet has no use for (maps, sets, floating point) is refused, so that no two
readers can understand the same bytes differently.
"""

from __future__ import annotations

from typing import Any, Final

TRUE, FALSE, I16, I32, I64, BINARY, LIST, STRUCT = 1, 2, 4, 5, 6, 8, 9, 12
DEEPEST: Final = 8
"""Structs and lists in each other; Parquet's own need six."""

_BYTE = 3
_NUMBERS = frozenset({I16, I32, I64})
_LONGEST_VARINT = 63
_CONTINUES = 128

Struct = dict[int, Any]
"""Numbers as int, texts as bytes, lists as list, structs as dict."""


class ThriftFault(Exception):
    """Bytes that are no such struct."""


def struct(data: bytes, place: int, deepest: int = DEEPEST) -> tuple[Struct, int]:
    """The struct at ``place``, and where it ends.

    Raises:
        IndexError: ``data`` ends before the struct does.
        ThriftFault: no struct that Parquet uses.
    """
    if not deepest:
        raise ThriftFault("too many levels")
    fields: Struct = {}
    name = 0
    while head := data[place]:
        place += 1
        name, place = field_id(data, place, head, name)
        if name in fields:
            raise ThriftFault(f"field {name} twice")
        kind = head & 15
        if kind in _NUMBERS:
            number = data[place]
            place += 1
            if number >= _CONTINUES:
                number, place = varint(data, place - 1)
            fields[name] = (number >> 1) ^ -(number & 1)
        else:
            fields[name], place = value(data, place, kind, deepest - 1)
    return fields, place + 1


def field_id(data: bytes, place: int, head: int, before: int) -> tuple[int, int]:
    """The id of the field whose first byte is ``head``, and where its value or the rest of its head begins."""
    if head >> 4:
        return before + (head >> 4), place
    number, place = varint(data, place)
    return (number >> 1) ^ -(number & 1), place


def value(data: bytes, place: int, kind: int, deepest: int) -> tuple[Any, int]:
    """A value of type ``kind`` at ``place``, and where it ends; raises as :func:`struct`."""
    if kind == BINARY:
        length, place = varint(data, place)
        end = place + length
        if end > len(data):
            raise IndexError
        return data[place:end], end
    if kind == STRUCT:
        return struct(data, place, deepest)
    if kind == LIST:
        return _list(data, place, deepest)
    if kind in {TRUE, FALSE}:
        return kind == TRUE, place
    if kind in _NUMBERS:
        number, place = varint(data, place)
        return (number >> 1) ^ -(number & 1), place
    if kind == _BYTE:
        return data[place], place + 1
    raise ThriftFault(f"type {kind}")


def list_head(data: bytes, place: int) -> tuple[int, int, int]:
    """How many elements the list at ``place`` has, of what type, and where they begin."""
    count, kind = data[place] >> 4, data[place] & 15
    place += 1
    if count == 15:  # noqa: PLR2004 - four bits that say: more follows
        count, place = varint(data, place)
    return count, kind, place


def varint(data: bytes, place: int) -> tuple[int, int]:
    """The number without sign at ``place``, and where it ends; raises as :func:`struct`."""
    number = shift = 0
    while True:
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < _CONTINUES:
            return number, place
        shift += 7
        if shift > _LONGEST_VARINT:
            raise ThriftFault("a number of more than 64 bits")


def _list(data: bytes, place: int, deepest: int) -> tuple[list[Any], int]:
    if not deepest:
        raise ThriftFault("too many levels")
    count, kind, place = list_head(data, place)
    if count > len(data) - place:  # an element takes a byte at least
        raise IndexError
    items = []
    for _ in range(count):
        if kind in {TRUE, FALSE, _BYTE}:  # in a list, a truth value takes a byte
            item: Any = data[place]
            place += 1
        else:
            item, place = value(data, place, kind, deepest - 1)
        items.append(item)
    return items, place
