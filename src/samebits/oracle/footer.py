"""The footer of a Parquet file: which bytes hold which column of which row group.

It is read here, and not asked of pyarrow, because pyarrow (26.0) ends the whole process when it is asked about a column
chunk whose footer names an unknown codec or histograms of a wrong size: the C++ exception finds nobody to catch it.
Reading the columns themselves is safe.

https://github.com/apache/parquet-format, ``src/main/thrift/parquet.thrift``, ``FileMetaData``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from samebits.oracle import thrift
from samebits.oracle.limits import CHUNK_BYTES, FOOTER_BYTES, GROUP_ROWS
from samebits.oracle.thrift import Struct, ThriftFault

MAGIC: Final = b"PAR1"
TAIL: Final = 8
"""Bytes after the footer: its length and the magic word."""

_ZSTD = 6
_ROW_GROUPS, _ROWS, _ENCRYPTION = 4, 3, 8
_IN_THIS_FILE = frozenset(range(2, 8))
"""Fields of a column chunk: all but ``file_path`` and those of encryption."""


class PageFault(Exception):
    """What is wrong with a file: which part, what was found there, what is accepted."""

    def __init__(self, part: str, found: object, accepted: object) -> None:
        self.part = part
        self.found = str(found)
        self.accepted = str(accepted)
        super().__init__(f"{part}: found {self.found}; accepted: {self.accepted}")


class Chunk(NamedTuple):
    """One column of one row group: its pages fill bytes ``begin`` to ``end``, a dictionary first if there is one."""

    name: str
    begin: int
    end: int
    values: int
    has_dictionary: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """One row group."""

    number: int
    rows: int
    chunks: list[Chunk]


def read(path: Path) -> bytes:
    """The footer's bytes.

    Raises:
        PageFault: the file does not end like Parquet, or the footer is longer than a reader should be asked to hold.
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        if size < len(MAGIC) + TAIL:
            raise PageFault("", f"{size} bytes", "a whole Parquet file")
        stream.seek(-TAIL, 2)
        tail = stream.read(TAIL)
        length, most = int.from_bytes(tail[:4], "little"), min(FOOTER_BYTES, size - len(MAGIC) - TAIL)
        if tail[4:] != MAGIC:
            raise PageFault("", "no footer at its end", "a whole Parquet file")
        if length > most:
            raise PageFault("footer", f"{length} bytes", f"at most {most} bytes")
        stream.seek(-TAIL - length, 2)
        return stream.read(length)


def groups(data: bytes, columns: list[str]) -> Iterator[Group]:
    """The row groups of the footer ``data``, one at a time, in a file of flat ``columns``.

    Raises:
        PageFault: the first thing in it that the evidence writer would not have written.
    """
    try:
        yield from _groups(data, columns)
    except IndexError:
        raise PageFault("footer", "a footer that does not end", "a whole footer") from None
    except ThriftFault as fault:
        raise PageFault("footer", str(fault), "a Parquet footer") from None


def _groups(data: bytes, columns: list[str]) -> Iterator[Group]:
    place = name = rows = 0
    said: int | None = None
    seen: set[int] = set()
    while head := data[place]:
        name, place = thrift.field_id(data, place + 1, head, name)
        if name in seen or name >= _ENCRYPTION:
            raise PageFault("footer", f"field {name}, a second time or encrypted", "each field once, in the clear")
        seen.add(name)
        if name == _ROW_GROUPS and head & 15 == thrift.LIST:
            count, kind, place = thrift.list_head(data, place)
            for number in range(count):
                if kind != thrift.STRUCT:
                    raise ThriftFault("row groups that are none")
                fields, place = thrift.struct(data, place)
                group = _group(fields, number, columns)
                rows += group.rows
                yield group
        else:
            value, place = thrift.value(data, place, head & 15, thrift.DEEPEST)
            said = value if name == _ROWS else said
    if said != rows:
        raise PageFault("footer", f"{said} rows", f"{rows}, as the row groups have")


def _group(fields: Struct, number: int, columns: list[str]) -> Group:
    rows, chunks = fields.get(3), fields.get(1)
    if not isinstance(rows, int) or not 0 <= rows <= GROUP_ROWS:
        raise PageFault(f"row group {number}", f"{rows} rows", f"at most {GROUP_ROWS}")
    if not isinstance(chunks, list) or len(chunks) != len(columns):
        raise PageFault(f"row group {number}", "other columns than the schema's", ", ".join(columns))
    where = f"row group {number}, "
    pairs = zip(chunks, columns, strict=True)
    return Group(number=number, rows=rows, chunks=[_chunk(chunk, where + name, name) for chunk, name in pairs])


def _chunk(fields: Any, part: str, name: str) -> Chunk:
    said = fields.get(3) if isinstance(fields, dict) and fields.keys() <= _IN_THIS_FILE else None
    if not isinstance(said, dict):
        raise PageFault(part, "a column in another file, or encrypted", "a column in this file, in the clear")
    if said.get(3) != [name.encode()]:
        raise PageFault(part, f"a column called {said.get(3)!r:.80}", name)
    if said.get(4) != _ZSTD:
        raise PageFault(part, f"compression {said.get(4)!r:.80}", f"{_ZSTD}, zstd")
    size, values, data_page = (_number(said, field, part) for field in (7, 5, 9))
    begin = _number(said, 11, part) if 11 in said else data_page  # noqa: PLR2004 - dictionary_page_offset
    if size > CHUNK_BYTES:
        raise PageFault(part, f"{size} bytes", f"at most {CHUNK_BYTES}")
    if begin > data_page:
        raise PageFault(part, f"a dictionary at byte {begin}, after the data", "a dictionary before the data")
    return Chunk(name=name, begin=begin, end=begin + size, values=values, has_dictionary=begin < data_page)


def _number(fields: Struct, name: int, part: str) -> int:
    value = fields.get(name)
    if type(value) is not int or value < 0:
        raise PageFault(part, f"no number in field {name}", "a number from 0")
    return value
