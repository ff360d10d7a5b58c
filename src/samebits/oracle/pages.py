"""The pages of a Parquet file, walked before any of them is decompressed.

A page says how large it becomes; a reader that believes it allocates that much.  So every page header of every column
is read first: sizes within :mod:`samebits.oracle.limits`, one codec, the encodings that the writer uses, chunks that
follow each other without gap or overlap and hold exactly the rows that the footer promises.  What this module accepts
is a small part of Parquet, and that is the point: less for a decoder to get wrong, nothing for two readers to
understand differently.

https://github.com/apache/parquet-format, ``src/main/thrift/parquet.thrift``; the headers are in Thrift's compact
protocol (https://github.com/apache/thrift, ``doc/specs/thrift-compact-protocol.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import pyarrow.parquet as pq

from samebits.oracle.limits import CHUNK_BYTES, FOOTER_BYTES, GROUP_ROWS, HEADER_BYTES, PAGE_BYTES, TEXTS_BYTES

MAGIC: Final = b"PAR1"
CODEC: Final = "ZSTD"

_DATA, _DICTIONARY = 0, 2
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8
_TAIL = 8
_USUAL_HEADER = 128

_I16, _I32, _I64, _BINARY, _STRUCT = 4, 5, 6, 8, 12
_NOTHING = frozenset({1, 2})
"""True and false: the type is the value."""
_DEEPEST = 4

Fields = dict[int, "int | Fields"]


class PageFault(Exception):
    """What is wrong with a file: which part, what was found there, what is accepted."""

    def __init__(self, part: str, found: object, accepted: object) -> None:
        self.part = part
        self.found = str(found)
        self.accepted = str(accepted)
        super().__init__(f"{part}: found {self.found}; accepted: {self.accepted}")


class Page(NamedTuple):
    """One page, by its header; ``size`` is compressed, ``becomes`` decompressed, both in bytes."""

    is_data: bool
    size: int
    becomes: int
    values: int


def check_footer(path: Path) -> None:
    """Nothing if the file at ``path`` ends like Parquet and its footer is of a sane length.

    Raises:
        PageFault: it does not, or the footer is longer than a reader should be asked to hold.
    """
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        if size < len(MAGIC) + _TAIL:
            raise PageFault("", f"{size} bytes", "a whole Parquet file")
        stream.seek(-_TAIL, 2)
        tail = stream.read(_TAIL)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC:
        raise PageFault("", "no footer at its end", "a whole Parquet file")
    if length > min(FOOTER_BYTES, size - len(MAGIC) - _TAIL):
        raise PageFault("footer", f"{length} bytes", f"at most {min(FOOTER_BYTES, size - len(MAGIC) - _TAIL)} bytes")


def check_pages(path: Path, metadata: pq.FileMetaData) -> None:
    """Nothing if every page of the file at ``path`` is one that the evidence writer might have made.

    ``metadata`` is the file's own footer, with as many flat columns in each row group as in its schema.

    Raises:
        PageFault: the first page, chunk or row group that is not.
        OSError: the file cannot be read.
    """
    end, rows, texts = len(MAGIC), 0, 0
    with path.open("rb") as stream:
        last = stream.seek(0, 2) - _TAIL - metadata.serialized_size
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            if not 0 <= group.num_rows <= GROUP_ROWS:
                raise PageFault(f"row group {number}", f"{group.num_rows} rows", f"at most {GROUP_ROWS}")
            rows += group.num_rows
            for column in range(metadata.num_columns):
                chunk = group.column(column)
                part = f"row group {number}, {chunk.path_in_schema[:80]}"
                begin, end = end, _end(chunk, part, begin=end, last=last)
                becomes = _check_chunk(stream, part, chunk, group.num_rows, begin, end)
                texts += becomes if chunk.physical_type == "BYTE_ARRAY" else 0
                if texts > TEXTS_BYTES:
                    raise PageFault(part, f"{texts} bytes of text or more up to here", f"at most {TEXTS_BYTES}")
    if end != last:
        raise PageFault("footer", f"{last - end} bytes that belong to no column", "none")
    if rows != metadata.num_rows:
        raise PageFault("footer", f"{metadata.num_rows} rows", f"{rows}, as the row groups have")


def _end(chunk: pq.ColumnChunkMetaData, part: str, *, begin: int, last: int) -> int:
    """Where the bytes of ``chunk`` end; they begin where those of the chunk before it end."""
    if chunk.file_path:
        raise PageFault(part, "a column in another file", "a column in this file")
    if chunk.compression != CODEC:
        raise PageFault(part, f"compression {chunk.compression}", CODEC)
    starts = [chunk.data_page_offset]
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        starts.append(chunk.dictionary_page_offset)
    end: int = begin + chunk.total_compressed_size
    if min(starts) != begin:
        raise PageFault(part, f"pages from byte {min(starts)}", f"pages from byte {begin}, where the last column ends")
    if not begin <= end <= last:
        raise PageFault(part, f"pages to byte {end}", f"pages within bytes {begin} to {last}")
    return end


def _check_chunk(stream: BinaryIO, part: str, chunk: pq.ColumnChunkMetaData, rows: int, begin: int, end: int) -> int:
    """Bytes that the column becomes once decompressed."""
    values, becomes, first = 0, 0, True
    for page in _pages(stream, part, begin, end):
        becomes += page.becomes
        if becomes > CHUNK_BYTES:
            raise PageFault(part, f"{becomes} bytes or more once decompressed", f"at most {CHUNK_BYTES}")
        if page.is_data:
            values += page.values
        elif not first or not chunk.has_dictionary_page:
            raise PageFault(part, "a dictionary that the footer does not name", "at most one, before all other pages")
        first = False
    if values != rows or chunk.num_values != rows:
        raise PageFault(part, f"{values} values, {chunk.num_values} by the footer", f"{rows}, one for each row")
    return becomes


def _pages(stream: BinaryIO, part: str, begin: int, end: int) -> Iterator[Page]:
    """The pages from byte ``begin`` to byte ``end``, which they fill."""
    while begin < end:
        stream.seek(begin)
        data = stream.read(min(_USUAL_HEADER, end - begin))
        try:
            page, header = _page(data, part)
        except IndexError:
            stream.seek(begin)
            data = stream.read(min(HEADER_BYTES, end - begin))
            try:
                page, header = _page(data, part)
            except IndexError:
                raise PageFault(part, "a page header that does not end", f"at most {HEADER_BYTES} bytes") from None
        begin += header + page.size
        if begin > end:
            raise PageFault(part, f"a page that ends at byte {begin}", f"pages up to byte {end}")
        yield page


def _page(data: bytes, part: str) -> tuple[Page, int]:
    """The page whose header begins ``data``, and the header's length.

    Raises:
        IndexError: ``data`` ends before the header does.
    """
    fields, length = _struct(data, 0, part, _DEEPEST)
    kind, becomes, size = (_number(fields, name, part) for name in (1, 2, 3))
    if becomes > PAGE_BYTES:
        raise PageFault(part, f"a page of {becomes} bytes once decompressed", f"at most {PAGE_BYTES}")
    if kind not in {_DATA, _DICTIONARY}:
        raise PageFault(part, f"a page of kind {kind}", "data pages of version 1 and one dictionary")
    inner = fields.get(5 if kind == _DATA else 7)
    if not isinstance(inner, dict):
        raise PageFault(part, "a page header that says nothing of its page", "one that does")
    encoding = _number(inner, 2, part)
    accepted = {_PLAIN, _PLAIN_DICTIONARY} | ({_RLE, _RLE_DICTIONARY} if kind == _DATA else set())
    if encoding not in accepted:
        raise PageFault(part, f"encoding {encoding}", f"encodings {sorted(accepted)}")
    if kind == _DATA and (_number(inner, 3, part), _number(inner, 4, part)) != (_RLE, _RLE):
        raise PageFault(part, "levels that are not run-length encoded", f"encoding {_RLE}")
    return Page(is_data=kind == _DATA, size=size, becomes=becomes, values=_number(inner, 1, part)), length


def _number(fields: Fields, name: int, part: str) -> int:
    """Field ``name``, a number that Parquet has room for: not negative, 31 bits."""
    value = fields.get(name)
    if not isinstance(value, int) or not 0 <= value < 1 << 31:
        found = value if isinstance(value, int) else "nothing"
        raise PageFault(part, f"{found} in field {name} of a page header", "a number from 0 to 2147483647")
    return value


def _struct(data: bytes, place: int, part: str, deepest: int) -> tuple[Fields, int]:
    """The struct at ``place``: numbers and structs by field id, texts and truth values left out; and where it ends."""
    if not deepest:
        raise PageFault(part, "a page header in too many levels", f"at most {_DEEPEST}")
    fields: Fields = {}
    name = 0
    while kind := data[place]:
        place += 1
        if kind >> 4:
            name += kind >> 4
        else:
            name, place = _signed(data, place, part)
        if name in fields:
            raise PageFault(part, f"field {name} of a page header twice", "each field once")
        kind &= 15
        if kind == _I32:
            fields[name], place = _signed(data, place, part)
        elif kind == _STRUCT:
            fields[name], place = _struct(data, place, part, deepest - 1)
        else:
            place = _skipped(data, place, part, kind)
    return fields, place + 1


def _skipped(data: bytes, place: int, part: str, kind: int) -> int:
    """Where a value that nobody needs ends."""
    if kind in _NOTHING:
        return place
    if kind not in {_I16, _I64, _BINARY}:
        raise PageFault(part, f"type {kind} in a page header", "numbers, texts, truth values, structs")
    length, place = _varint(data, place, part)
    if kind != _BINARY:
        return place
    if length > HEADER_BYTES:
        raise PageFault(part, f"a text of {length} bytes in a page header", f"at most {HEADER_BYTES} bytes")
    return place + length


def _signed(data: bytes, place: int, part: str) -> tuple[int, int]:
    value, place = _varint(data, place, part)
    return (value >> 1) ^ -(value & 1), place


def _varint(data: bytes, place: int, part: str) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:  # noqa: PLR2004 - the last byte has no high bit
            return value, place
        shift += 7
        if shift > 63:  # noqa: PLR2004 - Thrift's longest
            raise PageFault(part, "a number of more than 64 bits in a page header", "at most 64 bits")
