"""Files that the kit does not write, signed by somebody whom the verifier trusts: other forms, and bombs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from samebits.oracle import TABLES, limits
from tampering.acts import Act, bytes_of, instead, rows_of, sealed, setting
from tampering.genuine import Genuine
from tampering.table import FINDINGS, Case, case


def _column(table: str, change: Callable[[pa.Table], pa.Table]) -> Act:
    return lambda genuine: genuine.replace(table, change(pq.read_table(genuine.table(table))))


def _draws(kind: str, *, nullable: bool = False) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        field = pa.field("draws", kind, nullable=nullable)
        return table.set_column(2, field, table.column("draws").cast(kind))

    return change


def _copied(table: str, **options: Any) -> Act:
    return lambda genuine: genuine.replace(table, pq.read_table(genuine.table(table)), **options)


def _many(table: str, rows: int, **changed: Any) -> Act:
    """``rows`` copies of the table's first row, which compress to next to nothing."""

    def act(genuine: Genuine) -> None:
        first = pq.read_table(genuine.table(table)).to_pylist()[0] | changed
        columns = [
            pa.DictionaryArray.from_arrays(
                pa.array(np.zeros(rows, dtype=np.int32)), pa.array([first[field.name]], field.type)
            ).dictionary_decode()
            if field.name not in changed
            else pa.repeat(pa.scalar(changed[field.name], field.type), rows)
            for field in TABLES[table]
        ]
        genuine.replace(table, pa.table(columns, schema=TABLES[table]))

    return act


def _expanding(genuine: Genuine) -> None:
    """A few kilobytes that stand for 8 GiB of text."""
    text = "x" * 60_000
    rows = 1 << 17
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), pa.array([text]))
        if field.type == pa.string()
        else pa.array(np.zeros(rows, dtype=np.int32))
        for field in TABLES["counters"]
    ]
    columns[3] = columns[3].cast("int64") if columns[3].type == pa.int32() else columns[3]
    schema = pa.schema(
        [
            pa.field(field.name, column.type, nullable=False)
            for field, column in zip(TABLES["counters"], columns, strict=True)
        ]
    )
    path = genuine.table("counters")
    pq.write_table(pa.table(columns, schema=schema), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 1 << 14
    genuine.reseal()


def _one_page(genuine: Genuine) -> None:
    texts = [f"{number:06}" + "x" * 60_000 for number in range(1000)]
    columns = [["aligned"] * 1000, ["engine"] * 1000, texts, ["1"] * 1000]
    table = pa.table([pa.array(column) for column in columns], schema=TABLES["facts"])
    pq.write_table(
        table,
        genuine.table("facts"),
        compression="zstd",
        use_dictionary=False,
        data_page_size=1 << 30,
        write_batch_size=1000,
    )
    assert genuine.table("facts").stat().st_size < 1 << 17
    genuine.reseal()


def _extra(table: pa.Table) -> pa.Table:
    return table.append_column(pa.field("note", "int64", nullable=False), table.column("draws"))


def _backwards(table: pa.Table) -> pa.Table:
    return table.select(table.column_names[::-1])


def _copy(table: str, name: str) -> Act:
    return lambda genuine: shutil.copy(genuine.table(table), genuine.table(name))


def _endless(data: bytes) -> bytes:
    return data[:-8] + (2**32 - 1).to_bytes(4, "little") + data[-4:]


def _padded(data: bytes) -> bytes:
    footer = 8 + int.from_bytes(data[-8:-4], "little")
    return data[:-footer] + b"hidden" + data[-footer:]


def _wide_group(genuine: Genuine) -> None:
    rows = limits.GROUP_ROWS + 1
    first = pq.read_table(genuine.table("probes")).slice(0, 1)
    table = first.take(pa.array(np.zeros(rows, dtype=np.int64)))
    genuine.replace("probes", table, compression="zstd", row_group_size=rows)


_DELTA: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": False,
    "column_encoding": {"token_id": "DELTA_BINARY_PACKED", "draws": "PLAIN", "probability": "PLAIN"},
}


CASES: Final[tuple[Case, ...]] = (
    # Files that the kit does not write
    case(
        "another column type",
        _column("sampler", _draws("int32")),
        FINDINGS,
        "sampler.parquet: draws: found int32 not null; accepted: int64 not null",
    ),
    case(
        "a column that may be null",
        _column("sampler", _draws("int64", nullable=True)),
        FINDINGS,
        "sampler.parquet: draws: found int64; accepted: int64 not null",
    ),
    case(
        "a column more",
        _column("sampler", _extra),
        FINDINGS,
        "sampler.parquet: note: found an extra column; accepted: token_id, probability, draws",
    ),
    case(
        "a column less",
        _column("sampler", lambda table: table.drop_columns(["draws"])),
        FINDINGS,
        "sampler.parquet: draws: found missing; accepted: int64 not null",
    ),
    case(
        "columns in another order",
        _column("sampler", _backwards),
        FINDINGS,
        "sampler.parquet: draws: found column 1; accepted: column 1 is token_id",
    ),
    case(
        "a table taken away and signed",
        sealed(instead("probes.parquet", lambda _: None)),
        FINDINGS,
        "one.evidence/probes.parquet: found missing",
    ),
    case(
        "a table added and signed",
        sealed(_copy("probes", "more")),
        FINDINGS,
        "one.evidence/more.parquet: found an extra file",
    ),
    case(
        "another codec",
        _copied("sampler", compression="snappy"),
        FINDINGS,
        "sampler.parquet: row group 0, token_id: found compression 1; accepted: 6, zstd",
    ),
    case(
        "another encoding",
        _copied("sampler", **_DELTA),
        FINDINGS,
        "sampler.parquet: row group 0, token_id: found encoding 5; accepted: encodings [N, 2, 3, 8]",
    ),
    case(
        "another version of pages",
        _copied("sampler", compression="zstd", data_page_version="2.0"),
        FINDINGS,
        (
            "sampler.parquet: row group 0, token_id: found a page of kind 3; accepted: data pages of version "
            "1 and one dictionary"
        ),
    ),
    case(
        "a text in place of a table",
        sealed(bytes_of("probes.parquet", lambda _: b"trust me, " * 9)),
        FINDINGS,
        "probes.parquet: found unreadable (no footer at its end); accepted: a whole Parquet file",
    ),
    case(
        "a footer without end",
        sealed(bytes_of("probes.parquet", _endless)),
        FINDINGS,
        "probes.parquet: footer: found N bytes",
    ),
    case(
        "an encrypted footer",
        sealed(bytes_of("probes.parquet", lambda data: data[:-4] + b"PARE")),
        FINDINGS,
        "probes.parquet: found unreadable (no footer at its end); accepted: a whole Parquet file",
    ),
    case(
        "bytes between the pages",
        sealed(bytes_of("probes.parquet", _padded)),
        FINDINGS,
        "probes.parquet: footer: found 6 bytes that belong to no column; accepted: none",
    ),
    # Files that become far larger than they are
    case(
        "a page of 60 MB in 100 kB",
        _one_page,
        FINDINGS,
        (
            "facts.parquet: row group 0, name: found a page of 60010000 bytes once decompressed; accepted: at "
            "most 33554432"
        ),
    ),
    case(
        "rows beyond the limit",
        _many("refusals", 5000),
        FINDINGS,
        "refusals.parquet: found 5000 rows; accepted: at most 4096",
    ),
    case(
        "a row group beyond the limit",
        _wide_group,
        FINDINGS,
        "probes.parquet: row group 0: found 1048577 rows; accepted: at most 1048576",
    ),
    case(
        "8 GiB of text in a few kilobytes",
        _expanding,
        FINDINGS,
        "counters.parquet: found too much text; accepted: at most 2147483648 bytes",
    ),
    case(
        "a text of a megabyte",
        rows_of("facts", setting(value='"' + "x" * (1 << 20) + '"')),
        FINDINGS,
        "facts.parquet: value: found a text of 1048578 bytes; accepted: at most 65536 bytes",
    ),
)
