"""Writing evidence: parts while the run goes on, one file per table at its end.

A run is resumable by phase, so the rows of a phase wait as *parts*, one file per phase and table, until the whole run
is there.  Assembling streams the parts in the order of their phases' names; name phases in the order that the tables
want: ``aligned-000``, ``aligned-001``, … ``control-000`` (arm, then round).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from samebits.errors import InputError
from samebits.oracle.evidence import schema_difference
from samebits.oracle.tables import TABLES

ROW_GROUP_ROWS = 1 << 17
"""Rows per row group of an assembled file, whatever the parts were: the same rows give the same bytes."""

_PHASE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_NO_DICTIONARY = frozenset(
    # Nearly every value is new; a dictionary would only be thrown away.
    {"token_id", "rollout_bits", "recompute_bits", "train_bits", "prefill_bits", "probability", "draws", "nanoseconds"},
)

Rows: TypeAlias = pa.RecordBatch | pa.Table | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""Rows of one table: Arrow, columns by name (lists or numpy arrays), or one mapping per row."""


class EvidenceWriter:
    """Writes the tables into ``folder``; parts wait in ``parts``, beside it unless told otherwise."""

    def __init__(self, folder: Path, parts: Path | None = None) -> None:
        self.folder = folder
        self.parts = parts or folder.with_name(f"{folder.name}.parts")

    def part(self, phase: str, rows: Mapping[str, Rows]) -> None:
        """Keeps the rows of one phase, by table; each file is renamed into place whole, replacing an earlier one.

        A crash between two tables leaves the phase half written, so the caller notes a phase as done only after this
        returns, and :meth:`discard_unfinished` clears away the rest.

        Raises:
            InputError: no such table; a column too many, too few, of another type, or null where it may not be.
        """
        if not _PHASE.fullmatch(phase):
            raise InputError(
                "evidence phase",
                found=repr(phase),
                accepted="lower-case letters, digits and hyphens, at most 64",
                next_step="Name phases so that they sort as their rows should: aligned-003.",
            )
        tables = {name: to_table(name, some) for name, some in rows.items()}
        self.parts.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            _write(self.parts / f"{phase}.{name}.parquet", TABLES[name], iter([table]))

    def discard_unfinished(self, done: Collection[str]) -> None:
        """Removes parts of phases that are not ``done``, and files that a crash left half written."""
        for path in self._part_files():
            if path.name.startswith(".") or path.name.split(".")[0] not in done:
                path.unlink()

    def assemble(self) -> Path:
        """One file per table from all parts, empty where no part had rows; each appears whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files = sorted(path for path in self._part_files() if not path.name.startswith("."))
        for name, schema in TABLES.items():
            parts = [path for path in files if path.name.endswith(f".{name}.parquet")]
            _write(self.folder / f"{name}.parquet", schema, _rechunk(_read_all(parts), schema))
        return self.folder

    def discard_parts(self) -> None:
        """Removes all parts, once they are assembled and nobody will resume."""
        self.discard_unfinished(())

    def _part_files(self) -> list[Path]:
        return [path for path in self.parts.glob("*.parquet*") if path.is_file()] if self.parts.is_dir() else []


def to_table(table: str, rows: Rows) -> pa.Table:
    """``rows`` as an Arrow table with exactly the schema of ``table``.

    Raises:
        InputError: names the table and the column.
    """
    if table not in TABLES:
        raise InputError(
            "evidence table",
            found=repr(table),
            accepted=", ".join(TABLES),
            next_step="Write to one of these tables.",
        )
    schema = TABLES[table]
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        difference = schema_difference(rows.schema, schema)
        if difference is not None:
            raise _wrong(table, *difference)
        result = rows
    elif isinstance(rows, Mapping):
        _check_names(table, rows)
        result = pa.table([_column(table, field, rows[field.name]) for field in schema], schema=schema)
    else:
        for row in rows:
            _check_names(table, row)
        columns = [_column(table, field, [row[field.name] for row in rows]) for field in schema]
        result = pa.table(columns, schema=schema)
    for field in schema:
        if not field.nullable and result.column(field.name).null_count:
            raise _wrong(table, field.name, "null", f"{field.type} not null")
    return result


def _check_names(table: str, names: Collection[str]) -> None:
    schema = TABLES[table]
    wrong = set(names) ^ set(schema.names)
    if wrong:
        name = min(wrong)
        found = "missing" if name in schema.names else "an extra column"
        raise _wrong(table, name, found, ", ".join(schema.names))


def _column(table: str, field: pa.Field, values: Any) -> pa.Array:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        # Exact types only: a float that happens to be whole is still not an integer.
        found = pa.from_numpy_dtype(values.dtype)
        if found != field.type:
            raise _wrong(table, field.name, str(found), str(field.type))
    try:
        return pa.array(values, type=field.type)
    except (pa.ArrowException, TypeError, OverflowError, ValueError) as fault:
        raise _wrong(table, field.name, str(fault).splitlines()[0], str(field.type)) from None


def _wrong(table: str, column: str, found: str, accepted: str) -> InputError:
    return InputError(
        f"{table}: {column}",
        found=found,
        accepted=accepted,
        next_step="Write what samebits.oracle.tables says.",
    )


def _write(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    building = path.with_name(f".{path.name}.partial")
    # All options fixed: bytes depend on rows and on pyarrow's version only.
    with pq.ParquetWriter(
        building,
        schema,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        use_dictionary=[name for name in schema.names if name not in _NO_DICTIONARY],
        write_statistics=True,
    ) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
    building.replace(path)


def _read_all(files: list[Path]) -> Iterator[pa.RecordBatch]:
    for path in files:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=ROW_GROUP_ROWS)


def _rechunk(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The same rows in tables of exactly ``ROW_GROUP_ROWS`` rows, but for the last."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        rest = batch
        while count + rest.num_rows >= ROW_GROUP_ROWS:
            take = ROW_GROUP_ROWS - count
            yield pa.Table.from_batches([*waiting, rest.slice(0, take)], schema).combine_chunks()
            rest, waiting, count = rest.slice(take), [], 0
        if rest.num_rows:
            waiting.append(rest)
            count += rest.num_rows
    if waiting:
        yield pa.Table.from_batches(waiting, schema).combine_chunks()
