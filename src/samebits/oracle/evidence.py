"""Reading evidence: streamed, closed, and refused when anything about it is not as the tables say.

The folder holds exactly one Parquet file per table of :data:`samebits.oracle.tables.TABLES`; beside them may lie the
copies of the recipe and of the row that the evidence was made under, and nothing else.  How much of it there may be
stands in :mod:`samebits.oracle.limits`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from samebits.errors import InputError, SamebitsError
from samebits.oracle import footer, limits, pages
from samebits.oracle.columns import Int32, values
from samebits.oracle.footer import Group, PageFault
from samebits.oracle.tables import TABLES

BATCH_ROWS = 1 << 17
"""Rows per streamed batch: few enough for caches, many enough that a batch's fixed costs do not show."""

_READ_BYTES = 1 << 18

_THRIFT: Final = {"thrift_string_size_limit": 1 << 17, "thrift_container_size_limit": 1 << 20}
"""What a footer may make its reader allocate: bytes of a text, elements of a list."""

_UNREADABLE: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""The last: what pyarrow raises for a column whose name is no UTF-8."""

COMPANIONS = ("recipe.toml", "row.toml", "image.manifest.json")
"""Files that lie in the folder too; they are subjects of the certificate, not tables."""


class EvidenceReader:
    """The tables of one evidence folder.

    Every file's schema is checked on opening: names, order, types, nullability.  Values are read in batches; memory
    does not grow with the number of rows.

    Raises:
        SamebitsError: of the class ``error``, for everything that is wrong with the folder or a file in it.
    """

    def __init__(self, folder: Path, *, error: type[SamebitsError] = InputError) -> None:
        self.folder = folder
        self._error = error
        self._check_folder()
        self._groups: dict[str, list[Group]] = {}
        self._rows = {name: self._check_schema(name) for name in TABLES}

    def rows(self, table: str) -> int:
        """How many rows ``table`` has."""
        return self._rows[table]

    def batches(
        self, table: str, columns: Sequence[str] | None = None, *, codes_for: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """``table`` in order, at most ``BATCH_ROWS`` rows at a time.

        Text columns named in ``codes_for`` come as dictionary codes: 10^8 copies of "aligned" are never made.
        """
        path = self._path(table)
        try:
            # pyarrow's own read-ahead would keep the whole file in memory.
            with pq.ParquetFile(
                path, read_dictionary=list(codes_for), pre_buffer=False, buffer_size=_READ_BYTES, **_THRIFT
            ) as file:
                for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns):
                    for name, column in zip(batch.schema.names, batch.columns, strict=True):
                        _check_text(name, column)
                    yield batch
        except PageFault as fault:
            raise self._beyond(path, fault) from None
        except _UNREADABLE as fault:
            raise self._unreadable(path, fault) from None

    def distinct(
        self, table: str, columns: Sequence[str], sides: Sequence[str], *, codes_for: Sequence[str] = ()
    ) -> Iterator[dict[str, pa.Array]]:
        """As :meth:`batches`, by column, a row group at a time; those of ``sides`` that are the same are one array.

        In a run that passes, several columns of one type hold the same values, and the writer gave them the same bytes.
        Bytes that are the same are decoded once: whoever compares the columns next finds one object.
        """
        path = self._path(table)
        try:
            with (
                path.open("rb") as raw,
                pq.ParquetFile(
                    path, read_dictionary=list(codes_for), pre_buffer=False, buffer_size=_READ_BYTES, **_THRIFT
                ) as file,
            ):
                same = pages.SameBytes(raw)
                for group in self._groups[table]:
                    stands_for = same.stands_for(group, sides)
                    wanted = [name for name in columns if stands_for.get(name, name) == name]
                    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=wanted, row_groups=[group.number]):
                        found = dict(zip(batch.schema.names, batch.columns, strict=True))
                        for name, column in found.items():
                            _check_text(name, column)
                        yield {name: found[stands_for.get(name, name)] for name in columns}
        except PageFault as fault:
            raise self._beyond(path, fault) from None
        except _UNREADABLE as fault:
            raise self._unreadable(path, fault) from None

    def records(self, table: str) -> Iterator[dict[str, object]]:
        """``table`` row by row, for the tables that a person could read: everything but tokens and probes.

        A text that stands in many rows is one object.
        """
        room = limits.TEXTS_BYTES
        for batch in self.batches(table, codes_for=_texts(table)):
            columns: list[list[object]] = []
            for column in batch.columns:
                if isinstance(column, pa.DictionaryArray):
                    codes = values(column.indices, np.int32)
                    room -= _bytes_of(column, codes)
                    if room < 0:
                        raise self._beyond(
                            self._path(table), PageFault("", "too much text", f"at most {limits.TEXTS_BYTES} bytes")
                        )
                    words = column.dictionary.to_pylist()
                    columns.append([words[code] for code in codes.tolist()])
                else:
                    columns.append(column.to_pylist())
            names = batch.schema.names
            yield from (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))

    def fault(self, field: str, *, found: object, accepted: object) -> SamebitsError:
        """An error about a value in these files, of the class that this reader raises."""
        return self._error(field, found=found, accepted=accepted, next_step="This evidence cannot be judged.")

    def check_rounds(self, table: str, rounds: Int32) -> None:
        """Nothing if all of ``rounds`` [N] are ones that a run may have; what is kept of a table grows with them.

        Raises:
            SamebitsError: as :meth:`fault`.
        """
        if rounds.size and not 0 <= rounds.min() <= rounds.max() < limits.ROUNDS:
            wrong = rounds[(rounds < 0) | (rounds >= limits.ROUNDS)]
            raise self.fault(f"{table}: round", found=int(wrong[0]), accepted=f"0 to {limits.ROUNDS - 1}")

    def check_runs(self, table: str, changes: int) -> None:
        """Nothing if arm and round have changed from row to row no more often than in rows that are in order.

        Raises:
            SamebitsError: as :meth:`fault`.
        """
        if changes > limits.RUNS:
            raise self.fault(
                f"{table}: round",
                found=f"{changes} changes of arm or round",
                accepted=f"at most {limits.RUNS}: rows in order",
            )

    def _path(self, table: str) -> Path:
        return self.folder / f"{table}.parquet"

    def _check_folder(self) -> None:
        if not self.folder.is_dir():
            raise self._error(
                str(self.folder),
                found="no such folder",
                accepted="a folder with one Parquet file per evidence table",
                next_step="Check the path; the evidence lies beside its certificate.",
            )
        expected = {f"{name}.parquet" for name in TABLES}
        entries = {entry.name: entry for entry in self.folder.iterdir()}
        for name in sorted(entries.keys() | expected):
            if name not in entries:
                found = "missing"
            elif name not in expected and name not in COMPANIONS:
                found = "an extra file"
            elif entries[name].is_symlink():
                found = "a symbolic link"
            elif not entries[name].is_file():
                found = "not a file"
            else:
                continue
            raise self._error(
                f"{self.folder.name}/{name}",
                found=found,
                accepted=f"exactly these regular files: {', '.join(sorted(expected))}",
                next_step="Get the whole evidence folder again, and nothing else in it.",
            )

    def _check_schema(self, table: str) -> int:
        path = self._path(table)
        try:
            footer.read(path)
            with pq.ParquetFile(path, **_THRIFT) as file:
                # Nothing else of the metadata is asked of pyarrow: see samebits.oracle.footer.
                rows, found = int(file.metadata.num_rows), file.schema_arrow
        except PageFault as fault:
            raise (self._beyond(path, fault) if fault.part else self._unreadable(path, fault.found)) from None
        except _UNREADABLE as fault:
            raise self._unreadable(path, fault) from None
        difference = schema_difference(found, TABLES[table])
        if difference is not None:
            column, was, accepted = difference
            raise self._error(
                f"{path.name}: {column}",
                found=was,
                accepted=accepted,
                next_step="This file was not written by this version of the kit.",
            )
        try:
            if not 0 <= rows <= limits.ROWS[table]:
                raise PageFault("", f"{rows} rows", f"at most {limits.ROWS[table]}")  # noqa: TRY301 - one handler
            self._groups[table] = pages.check(path, TABLES[table].names, set(_texts(table)))
        except PageFault as fault:
            raise self._beyond(path, fault) from None
        except OSError as fault:
            raise self._unreadable(path, fault) from None
        return rows

    def _beyond(self, path: Path, fault: PageFault) -> SamebitsError:
        return self._error(
            f"{path.name}: {fault.part}" if fault.part else path.name,
            found=fault.found,
            accepted=fault.accepted,
            next_step="No run of this kit leaves such a file.",
        )

    def _unreadable(self, path: Path, fault: Exception | str) -> SamebitsError:
        reason = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
        return self._error(
            path.name,
            found=f"unreadable ({reason})",
            accepted="a whole Parquet file",
            next_step="Get the evidence again; this copy is damaged.",
        )


def _texts(table: str) -> list[str]:
    return [field.name for field in TABLES[table] if field.type == pa.string()]


def _check_text(name: str, column: pa.Array) -> None:
    """Parquet readers take any bytes for text; of a dictionary, each entry is looked at once.

    Raises:
        pyarrow.ArrowInvalid: not UTF-8, or a code of no entry.
        PageFault: a text that is too long.
    """
    texts = column.dictionary if isinstance(column, pa.DictionaryArray) else column
    if not pa.types.is_string(texts.type):
        return
    if isinstance(column, pa.DictionaryArray) and len(column):
        # pyarrow hands them on as they stand in the file; a negative one would count from the end.
        codes = values(column.indices, np.int32)
        if not 0 <= codes.min() <= codes.max() < len(texts):
            raise pa.ArrowInvalid(f"{name} has a code of no text")
    texts.validate(full=True)
    longest = pc.max(pc.binary_length(texts)).as_py() if len(texts) else 0
    if (longest or 0) > limits.TEXT_BYTES:
        raise PageFault(name, f"a text of {longest} bytes", f"at most {limits.TEXT_BYTES} bytes")


def _bytes_of(column: pa.DictionaryArray, codes: Int32) -> int:
    """Bytes of all texts of a column [N], each as often as it stands there."""
    lengths = pc.binary_length(column.dictionary).to_numpy(zero_copy_only=False)
    return int(lengths[codes].sum(dtype=np.int64)) if codes.size else 0


def schema_difference(found: pa.Schema, accepted: pa.Schema) -> tuple[str, str, str] | None:
    """The first column in which two schemas differ, as (column, found, accepted); None if they are the same."""
    for index, field in enumerate(accepted):
        if index >= len(found.names) or field.name not in found.names:
            return field.name, "missing", _describe(field)
        other = found.field(index)
        if other.name != field.name:
            return other.name, f"column {index + 1}", f"column {index + 1} is {field.name}"
        if other.type != field.type or other.nullable != field.nullable:
            return field.name, _describe(other), _describe(field)
    if len(found.names) > len(accepted.names):
        return found.names[len(accepted.names)], "an extra column", ", ".join(accepted.names)
    return None


def _describe(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"
