"""Evidence as files: exact schemas in, exact schemas out, nothing half-written, the same bytes for the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from samebits.errors import InputError, InvalidCertificate
from samebits.hashing import sha256_file
from samebits.oracle import TABLES, EvidenceReader, EvidenceWriter, judge, writer
from simulator import Simulator

COUNTERS = {"arm": ["aligned", "aligned"], "round": [0, 1], "counter": ["steps", "steps"], "value": [3, 4]}

CODES = "dictionary<values=string, indices=int32, ordered=0> not null"


def counters(**changed: Any) -> dict[str, Any]:
    return COUNTERS | changed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Simulator().write(tmp_path / "evidence")


def refusal(folder: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        EvidenceReader(folder, **options)
    return str(caught.value)


# Writing


@pytest.mark.parametrize(
    "rows",
    [
        COUNTERS,
        [{name: column[row] for name, column in COUNTERS.items()} for row in range(2)],
        counters(round=np.array([0, 1], dtype=np.int32), value=np.array([3, 4])),
        pa.table(COUNTERS, schema=TABLES["counters"]),
        pa.RecordBatch.from_pydict(COUNTERS, schema=TABLES["counters"]),
    ],
    ids=["columns", "rows", "numpy", "table", "batch"],
)
def test_rows_in_any_form(tmp_path: Path, rows: Any) -> None:
    evidence = EvidenceWriter(tmp_path / "evidence")
    evidence.part("aligned-000", {"counters": rows})
    reader = EvidenceReader(evidence.assemble())
    assert list(reader.records("counters")) == [
        {"arm": "aligned", "round": 0, "counter": "steps", "value": 3},
        {"arm": "aligned", "round": 1, "counter": "steps", "value": 4},
    ]
    assert {table: reader.rows(table) for table in TABLES} == dict.fromkeys(TABLES, 0) | {"counters": 2}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (counters(extra=[1, 2]), "counters: extra: found an extra column; accepted: arm, round, counter, value."),
        (
            {"arm": [], "round": [], "value": []},
            "counters: counter: found missing; accepted: arm, round, counter, value.",
        ),
        ([{"arm": "aligned"}], "counters: counter: found missing; accepted: arm, round, counter, value."),
        (counters(value=np.array([3.0, 4.0])), "counters: value: found double; accepted: int64."),
        (counters(round=np.array([0, 1])), "counters: round: found int64; accepted: int32."),
        (counters(arm=["aligned", None]), "counters: arm: found null; accepted: string not null."),
        (
            pa.table({**COUNTERS, "round": pa.array([0, 1], pa.int64())}),
            "counters: arm: found string; accepted: string not null.",
        ),
    ],
)
def test_rows_of_another_schema(tmp_path: Path, rows: Any, message: str) -> None:
    evidence = EvidenceWriter(tmp_path / "evidence")
    with pytest.raises(InputError) as caught:
        evidence.part("aligned-000", {"counters": rows})
    assert str(caught.value) == f"{message} Write what samebits.oracle.tables says."
    assert not evidence.parts.exists()


def test_an_unknown_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="evidence table: found 'rumours'; accepted: tokens, trajectories"):
        EvidenceWriter(tmp_path / "evidence").part("aligned-000", {"rumours": []})


def test_a_phase_that_could_leave_the_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"evidence phase: found '\.\./x'"):
        EvidenceWriter(tmp_path / "evidence").part("../x", {})


def test_the_same_rows_give_the_same_bytes_however_they_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ROW_GROUP_ROWS", 100)
    world = Simulator()
    whole = EvidenceWriter(tmp_path / "whole")
    whole.part("all", world.tables)
    pieces = EvidenceWriter(tmp_path / "pieces")
    tokens = world.tables["tokens"]
    for number, start in enumerate(range(0, len(tokens), 37)):
        pieces.part(f"aligned-{number:03d}", {"tokens": tokens[start : start + 37]})
    pieces.part("rest", {name: rows for name, rows in world.tables.items() if name != "tokens"})
    whole.assemble()
    pieces.assemble()
    for name in TABLES:
        file = f"{name}.parquet"
        assert sha256_file(whole.folder / file) == sha256_file(pieces.folder / file), name
    groups = pq.ParquetFile(whole.folder / "tokens.parquet").metadata
    assert [groups.row_group(index).num_rows for index in range(groups.num_row_groups)] == [100] * 10 + [
        len(tokens) - 1000
    ]


def test_parts_are_assembled_in_the_order_of_their_names(tmp_path: Path) -> None:
    evidence = EvidenceWriter(tmp_path / "evidence", tmp_path / "waiting")
    for name, arm in (("control-000", "control"), ("aligned-001", "aligned")):
        evidence.part(name, {"counters": counters(arm=[arm, arm])})
    reader = EvidenceReader(evidence.assemble())
    assert [row["arm"] for row in reader.records("counters")] == ["aligned"] * 2 + ["control"] * 2


def test_a_part_written_again_replaces_the_first(tmp_path: Path) -> None:
    evidence = EvidenceWriter(tmp_path / "evidence")
    evidence.part("aligned-000", {"counters": COUNTERS})
    evidence.part("aligned-000", {"counters": counters(value=[5, 6])})
    assert [row["value"] for row in EvidenceReader(evidence.assemble()).records("counters")] == [5, 6]


def test_unfinished_phases_are_discarded(tmp_path: Path) -> None:
    evidence = EvidenceWriter(tmp_path / "evidence")
    evidence.part("aligned-000", {"counters": COUNTERS})
    evidence.part("aligned-001", {"counters": COUNTERS})
    (evidence.parts / ".aligned-000.tokens.parquet.partial").write_bytes(b"half")
    evidence.discard_unfinished({"aligned-000"})
    assert [path.name for path in evidence.parts.iterdir()] == ["aligned-000.counters.parquet"]
    evidence.discard_parts()
    assert list(evidence.parts.iterdir()) == []


def test_assembling_leaves_other_files_alone(tmp_path: Path) -> None:
    evidence = EvidenceWriter(tmp_path / "evidence")
    evidence.folder.mkdir()
    (evidence.folder / "recipe.toml").write_bytes(b"id = 1")
    EvidenceReader(evidence.assemble())
    assert (evidence.folder / "recipe.toml").read_bytes() == b"id = 1"


# Reading


def test_a_missing_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none") == (
        f"{tmp_path / 'none'}: found no such folder; accepted: a folder with one Parquet file per evidence table. "
        "Check the path; the evidence lies beside its certificate."
    )


def test_a_missing_table(folder: Path) -> None:
    (folder / "probes.parquet").unlink()
    assert refusal(folder).startswith("evidence/probes.parquet: found missing; accepted: exactly these regular files: ")


def test_an_extra_file(folder: Path) -> None:
    (folder / "more.parquet").write_bytes(b"")
    assert refusal(folder).startswith("evidence/more.parquet: found an extra file; ")


def test_a_symbolic_link(folder: Path) -> None:
    (folder / "probes.parquet").rename(folder.parent / "probes")
    (folder / "probes.parquet").symlink_to(folder.parent / "probes")
    assert refusal(folder).startswith("evidence/probes.parquet: found a symbolic link; ")


def test_a_folder_in_place_of_a_table(folder: Path) -> None:
    (folder / "probes.parquet").unlink()
    (folder / "probes.parquet").mkdir()
    assert refusal(folder).startswith("evidence/probes.parquet: found not a file; ")


@pytest.mark.parametrize("size", [0, 3, 500])
def test_a_truncated_file(folder: Path, size: int) -> None:
    path = folder / "tokens.parquet"
    path.write_bytes(path.read_bytes()[:size])
    assert refusal(folder).startswith("tokens.parquet: found unreadable (")


def test_damage_inside_a_column(folder: Path) -> None:
    path = folder / "tokens.parquet"
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 100] = bytes(100)
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        judge(folder, Simulator().recipe)
    assert (caught.value.field, caught.value.accepted) == ("tokens.parquet", "a whole Parquet file")


def test_damage_in_a_page_s_header(folder: Path) -> None:
    path = folder / "tokens.parquet"
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)
    path.write_bytes(data)
    assert refusal(folder) == (
        "tokens.parquet: row group 0, arm: found nothing in field 1 of a page header; accepted: a number from 0 to "
        "2147483647. No run of this kit leaves such a file."
    )


def _rewritten(folder: Path, change: Any) -> Path:
    path = folder / "counters.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda table: table.drop_columns(["value"]),
            "counters.parquet: value: found missing; accepted: int64 not null.",
        ),
        (
            lambda table: table.append_column("note", table.column("arm")),
            "counters.parquet: note: found an extra column; accepted: arm, round, counter, value.",
        ),
        (
            lambda table: table.select(["round", "arm", "counter", "value"]),
            "counters.parquet: round: found column 1; accepted: column 1 is arm.",
        ),
        (
            lambda table: table.set_column(
                3, pa.field("value", pa.float64(), nullable=False), table["value"].cast("double")
            ),
            "counters.parquet: value: found double not null; accepted: int64 not null.",
        ),
        (
            lambda table: table.set_column(1, pa.field("round", pa.int32()), table["round"]),
            "counters.parquet: round: found int32; accepted: int32 not null.",
        ),
        (
            lambda table: table.set_column(
                0,
                pa.field("arm", pa.dictionary(pa.int32(), pa.string()), nullable=False),
                table["arm"].dictionary_encode(),
            ),
            f"counters.parquet: arm: found {CODES}; accepted: string not null.",
        ),
    ],
    ids=["missing", "extra", "order", "type", "nullable", "dictionary"],
)
def test_another_schema_names_table_and_column(folder: Path, change: Any, message: str) -> None:
    next_step = "This file was not written by this version of the kit."
    assert refusal(_rewritten(folder, change)) == f"{message} {next_step}"


def test_the_error_is_of_the_class_that_was_asked_for(folder: Path) -> None:
    (folder / "probes.parquet").unlink()
    with pytest.raises(InvalidCertificate):
        judge(folder, Simulator().recipe, error=InvalidCertificate)


@pytest.mark.parametrize(
    ("table", "column", "value", "message"),
    [
        ("trajectories", "reward", "a lot", "trajectories: reward: found 'a lot'; accepted: a finite decimal"),
        ("trajectories", "reward", "NaN", "trajectories: reward: found 'NaN'; accepted: a finite decimal"),
        (
            "trajectories",
            "reward",
            "1e999999999",
            "trajectories: reward: found '1e999999999'; accepted: a finite decimal",
        ),
        ("counters", "value", -1, "counters: value: found -1; accepted: 0 to 4294967296"),
        ("counters", "value", 2**62, "counters: value: found 4611686018427387904; accepted: 0 to 4294967296"),
        ("timings", "nanoseconds", -1, "timings: nanoseconds: found -1; accepted: 0 or more"),
        ("trajectories", "arm", "third", "trajectories: arm: found another arm; accepted: aligned or control"),
    ],
)
def test_values_that_cannot_be_judged(tmp_path: Path, table: str, column: str, value: object, message: str) -> None:
    world = Simulator()
    world.tables[table][0][column] = value
    with pytest.raises(InputError) as caught:
        world.judge(tmp_path / "evidence")
    assert str(caught.value) == f"{message}. This evidence cannot be judged."


def test_a_counter_that_is_written_twice(tmp_path: Path) -> None:
    world = Simulator()
    world.tables["counters"].append(dict(world.tables["counters"][0]))
    with pytest.raises(InputError, match="counters: counter: found 'preemptions' twice for one round"):
        world.judge(tmp_path / "evidence")


@pytest.mark.parametrize(
    ("table", "column"), [("trajectories", "sampling"), ("trajectories", "arm"), ("facts", "value"), ("tokens", "arm")]
)
def test_text_that_is_not_utf_8(folder: Path, table: str, column: str) -> None:
    path = folder / f"{table}.parquet"
    found = pq.read_table(path)
    index = found.schema.get_field_index(column)
    raw = pa.array([b"\xff", *(text.encode() for text in found[column].to_pylist()[1:])], pa.binary())
    column_of_bytes = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    pq.write_table(found.set_column(index, found.schema.field(index), column_of_bytes), path, compression="zstd")
    assert refusal_of_values(folder) == f"{table}.parquet: found unreadable (Invalid UTF8 sequence at string index 0)"


def test_versions_far_apart_are_not_counted_one_by_one(tmp_path: Path) -> None:
    world = Simulator()
    world.tables["refits"][0]["version"] = -(2**31)
    reasons = world.judge(tmp_path / "evidence").reasons
    assert any("found the versions -2147483648, 0, 1, 2" in reason for reason in reasons)


def refusal_of_values(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        judge(folder, Simulator().recipe)
    return f"{caught.value.field}: found {caught.value.found}"
