"""The pages of a Parquet file, walked before any of them is decompressed.

A page says how large it becomes; a reader that believes it allocates that much.  So every page header of every column
is read first: sizes within :mod:`samebits.oracle.limits`, one codec, the encodings that the writer uses, chunks that
follow each other without gap or overlap and hold exactly the rows that the footer promises.  What this module accepts
is a small part of Parquet, and that is the point: less for a decoder to get wrong, nothing for two readers to
understand differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from samebits.oracle import footer, thrift
from samebits.oracle.footer import MAGIC, TAIL, Chunk, Group, PageFault
from samebits.oracle.limits import CHUNK_BYTES, HEADER_BYTES, PAGE_BYTES, TEXTS_BYTES
from samebits.oracle.thrift import Struct, ThriftFault

_DATA, _DICTIONARY = 0, 2
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8
_USUAL_HEADER = 128

_NUMBER = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
_FIXED = rb"(?:\x01.|\x04.{4}|\x07.{7}|\x08.{8})"
_USUAL: Final = re.compile(
    # type 0; two sizes; values, encoding, levels 3 and 3; statistics of values of usual widths: most headers are so.
    rb"\x15\x00\x15"
    + _NUMBER
    + rb"\x15"
    + _NUMBER
    + rb"\x2c\x15"
    + _NUMBER
    + rb"\x15[\x00\x04\x06\x10]\x15\x06\x15\x06"
    rb"(?:\x1c(?:\x18" + _FIXED + rb"\x18" + _FIXED + rb"\x16|\x36)[\x80-\xff]{0,4}[\x00-\x7f]"
    rb"(?:\x28" + _FIXED + rb"\x18" + _FIXED + rb"(?:[\x11\x12]{2})?)?\x00)?\x00\x00",
    re.DOTALL,
)


class Page(NamedTuple):
    """One page, by its header; ``size`` is compressed, ``becomes`` decompressed, both in bytes."""

    is_data: bool
    size: int
    becomes: int
    values: int


def check(path: Path, columns: list[str], texts: AbstractSet[str]) -> list[Group]:
    """The row groups of the file at ``path``, if every page is one that the evidence writer might have made.

    ``columns`` are the flat columns of its schema, ``texts`` those of variable width.

    Raises:
        PageFault: the first page, chunk or row group that is not.
        OSError: the file cannot be read.
    """
    found, end, text = [], len(MAGIC), 0
    data = footer.read(path)
    with path.open("rb") as stream:
        last = stream.seek(0, 2) - TAIL - len(data)
        for group in footer.groups(data, columns):
            for chunk in group.chunks:
                part = f"row group {group.number}, {chunk.name}"
                if chunk.begin != end:
                    raise PageFault(part, f"pages from byte {chunk.begin}", f"byte {end}, where the last column ends")
                if chunk.end > last:
                    raise PageFault(part, f"pages to byte {chunk.end}", f"pages up to byte {last}")
                becomes = _check_chunk(stream, part, chunk, group.rows)
                text += becomes if chunk.name in texts else 0
                if text > TEXTS_BYTES:
                    raise PageFault(part, f"{text} bytes of text or more up to here", f"at most {TEXTS_BYTES}")
                end = chunk.end
            found.append(group)
    if end != last:
        raise PageFault("footer", f"{last - end} bytes that belong to no column", "none")
    return found


class SameBytes:
    """Which columns of a row group have the same bytes; keeps two buffers, so that none is made anew each time."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._buffers = (bytearray(), bytearray())

    def stands_for(self, group: Group, names: Sequence[str]) -> dict[str, str]:
        """For each of the columns ``names``, all of one type, itself or the first of them if that has the same bytes.

        The pages have been checked, so that codec and encodings stand in these bytes and nowhere else: what decodes the
        one decodes the other.
        """
        chunks = {chunk.name: chunk for chunk in group.chunks if chunk.name in names}
        first = chunks[names[0]]
        content = self._read(first, 0)
        return {
            name: names[0] if _shape(chunk) == _shape(first) and self._read(chunk, 1) == content else name
            for name, chunk in chunks.items()
        }

    def _read(self, chunk: Chunk, which: int) -> bytearray:
        buffer = self._buffers[which]
        size = chunk.end - chunk.begin
        if len(buffer) != size:
            del buffer[size:]
            buffer.extend(bytes(size - len(buffer)))
        self._stream.seek(chunk.begin)
        self._stream.readinto(buffer)  # type: ignore[attr-defined]  # a file's, whatever its protocol says
        return buffer


def _shape(chunk: Chunk) -> tuple[int, int, bool]:
    return chunk.end - chunk.begin, chunk.values, chunk.has_dictionary


def _check_chunk(stream: BinaryIO, part: str, chunk: Chunk, rows: int) -> int:
    """Bytes that the column becomes once decompressed."""
    values, becomes, first = 0, 0, True
    for page in _pages(stream, part, chunk.begin, chunk.end):
        becomes += page.becomes
        if becomes > CHUNK_BYTES:
            raise PageFault(part, f"{becomes} bytes or more once decompressed", f"at most {CHUNK_BYTES}")
        if page.is_data:
            values += page.values
        if page.is_data == (first and chunk.has_dictionary):
            raise PageFault(part, "a dictionary where none is named, or none where one is", "what the footer says")
        first = False
    if values != rows or chunk.values != rows:
        raise PageFault(part, f"{values} values, {chunk.values} by the footer", f"{rows}, one for each row")
    return becomes


def _pages(stream: BinaryIO, part: str, begin: int, end: int) -> Iterator[Page]:
    """The pages from byte ``begin`` to byte ``end``, which they fill."""
    while begin < end:
        stream.seek(begin)
        data = stream.read(min(_USUAL_HEADER, end - begin))
        usual = _USUAL.match(data)
        if usual is not None:
            becomes, size, values = (_positive(thrift.varint(number, 0)[0], part) for number in usual.group(1, 2, 3))
            page, header = Page(is_data=True, size=size, becomes=_small(becomes, part), values=values), usual.end()
        else:
            page, header = _unusual(stream, part, begin, end)
        begin += header + page.size
        if begin > end:
            raise PageFault(part, f"a page that ends at byte {begin}", f"pages up to byte {end}")
        yield page


def _unusual(stream: BinaryIO, part: str, begin: int, end: int) -> tuple[Page, int]:
    """The page at byte ``begin`` and the length of its header, whatever its header looks like."""
    stream.seek(begin)
    data = stream.read(min(HEADER_BYTES, end - begin))
    try:
        fields, length = thrift.struct(data, 0)
    except IndexError:
        raise PageFault(part, "a page header that does not end", f"at most {HEADER_BYTES} bytes") from None
    except ThriftFault as fault:
        raise PageFault(part, f"{fault} in a page header", "a Parquet page header") from None
    return _page(fields, part), length


def _page(fields: Struct, part: str) -> Page:
    kind, becomes, size = (_number(fields, name, part) for name in (1, 2, 3))
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
    return Page(is_data=kind == _DATA, size=size, becomes=_small(becomes, part), values=_number(inner, 1, part))


def _number(fields: Struct, name: int, part: str) -> int:
    """Field ``name``, a number that Parquet has room for: not negative, 31 bits."""
    value = fields.get(name)
    if type(value) is not int or not 0 <= value < 1 << 31:
        found = value if type(value) is int else "nothing"
        raise PageFault(part, f"{found} in field {name} of a page header", "a number from 0 to 2147483647")
    return value


def _positive(zigzag: int, part: str) -> int:
    if zigzag & 1 or zigzag >= 1 << 32:
        raise PageFault(part, "a number below 0 or beyond 31 bits in a page header", "a number from 0 to 2147483647")
    return zigzag >> 1


def _small(becomes: int, part: str) -> int:
    if becomes > PAGE_BYTES:
        raise PageFault(part, f"a page of {becomes} bytes once decompressed", f"at most {PAGE_BYTES}")
    return becomes
