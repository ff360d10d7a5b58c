"""Footers and page headers, read strictly; what a reader would allocate for is known before it does."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from samebits.errors import InputError
from samebits.oracle import TABLES, EvidenceReader, evidence, footer, limits, pages, thrift
from samebits.oracle.footer import PageFault
from samebits.oracle.thrift import ThriftFault
from simulator import Simulator

COLUMNS = TABLES["sampler"].names


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Simulator().write(tmp_path / "evidence") / "sampler.parquet"


def refusal(path: Path) -> str:
    with pytest.raises(PageFault) as caught:
        pages.check(path, COLUMNS, set())
    return str(caught.value)


def test_every_table_has_a_limit() -> None:
    assert limits.ROWS.keys() == TABLES.keys()


def test_the_footer_says_what_pyarrow_says(path: Path) -> None:
    (group,) = pages.check(path, COLUMNS, set())
    metadata = pq.ParquetFile(path).metadata.row_group(0)
    assert (group.rows, [chunk.name for chunk in group.chunks]) == (metadata.num_rows, COLUMNS)
    ends = [metadata.column(index).total_compressed_size for index in range(3)]
    assert [chunk.end - chunk.begin for chunk in group.chunks] == ends
    assert group.chunks[0].begin == 4


@pytest.mark.parametrize("codec", [14, 23, 5, 0])
def test_a_codec_over_which_pyarrow_would_end_the_process(path: Path, codec: int) -> None:
    data = path.read_bytes()
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    named = b"\x08token_id\x15\x0c"
    assert data[begin:].count(named) == 1
    path.write_bytes(data[:begin] + data[begin:].replace(named, named[:-1] + bytes([2 * codec])))
    assert refusal(path) == f"row group 0, token_id: found compression {codec}; accepted: 6, zstd"
    with pytest.raises(InputError, match=f"compression {codec}"):
        EvidenceReader(path.parent)


def test_a_page_that_lies_about_its_size(path: Path) -> None:
    data = path.read_bytes()
    header, length = thrift.struct(data, 4)
    assert pages._page(header, "x") == (True, header[3], header[2], 16)
    for name, value, message in (
        (2, limits.PAGE_BYTES + 1, f"found a page of {limits.PAGE_BYTES + 1} bytes once decompressed"),
        (2, -1, "found -1 in field 2 of a page header"),
        (1, 3, "found a page of kind 3"),
    ):
        with pytest.raises(PageFault, match=message):
            pages._page(header | {name: value}, "x")
    assert length < 128


def test_the_usual_header_is_read_the_same_in_both_ways(path: Path) -> None:
    data = path.read_bytes()
    usual = pages._USUAL.match(data, 4)
    assert usual is not None
    fields, end = thrift.struct(data, 4)
    assert usual.end() == end
    numbers = [thrift.varint(number, 0)[0] >> 1 for number in usual.group(1, 2, 3)]
    assert numbers == [fields[2], fields[3], fields[5][1]]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"\x15\x02\x05\x02\x04\x00", "field 1 twice"),
        (b"\x1b\x00\x00", "type 11"),
        (b"\x15" + b"\xff" * 10 + b"\x01\x00", "a number of more than 64 bits"),
        (b"\x1c" * 20, "too many levels"),
    ],
)
def test_thrift_that_is_refused(data: bytes, fault: str) -> None:
    with pytest.raises(ThriftFault, match=fault):
        thrift.struct(data, 0)


@pytest.mark.parametrize("data", [b"", b"\x15", b"\x18\x7fabc", b"\x19\xfc\xff\xff\x03"])
def test_thrift_that_does_not_end(data: bytes) -> None:
    with pytest.raises(IndexError):
        thrift.struct(data, 0)


def test_columns_of_the_same_bytes_are_one_object(tmp_path: Path) -> None:
    reader = EvidenceReader(Simulator().write(tmp_path / "evidence"))
    sides = ("rollout_bits", "recompute_bits", "train_bits", "prefill_bits")
    (found,) = list(reader.distinct("tokens", ("arm", *sides), sides))
    # The control arm differs in the same row group: the actor's two sides are the same, and not the rollout's.
    assert found["rollout_bits"] is not found["recompute_bits"]
    same = pa.table([found["recompute_bits"]] * 2, names=["a", "b"])
    assert same["a"] == same["b"]


def test_aligned_rows_alone_are_decoded_once(tmp_path: Path) -> None:
    world = Simulator()
    world.remove("tokens", arm="control")
    reader = EvidenceReader(world.write(tmp_path / "evidence"))
    sides = ("rollout_bits", "recompute_bits", "train_bits", "prefill_bits")
    (found,) = list(reader.distinct("tokens", ("arm", *sides), sides))
    assert all(found[side] is found["rollout_bits"] for side in sides)
    whole = pq.read_table(tmp_path / "evidence" / "tokens.parquet")
    assert [found[side].to_pylist() for side in sides] == [whole[side].to_pylist() for side in sides]


def test_a_column_whose_name_is_no_text(path: Path) -> None:
    data = path.read_bytes()
    footer_begins = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path.write_bytes(data[:footer_begins] + data[footer_begins:].replace(b"token_id", b"token\xb5id"))
    with pytest.raises(InputError, match=r"sampler.parquet: found unreadable \('utf-8' codec can't decode byte 0xb5"):
        EvidenceReader(path.parent)


@pytest.mark.parametrize("code", [2, -1])
def test_a_code_of_no_text(code: int) -> None:
    codes = pa.array([0, code, 1], pa.int32())
    column = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]), safe=False)
    with pytest.raises(pa.ArrowInvalid, match="arm has a code of no text"):
        evidence._check_text("arm", column)


def test_a_footer_is_read_a_row_group_at_a_time(path: Path) -> None:
    groups = footer.groups(footer.read(path), COLUMNS)
    assert next(groups).number == 0
    assert list(groups) == []
