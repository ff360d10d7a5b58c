"""Targets that are evidence: files of random damage, and tables of which one thing was changed and signed again."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Set as AbstractSet
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fuzz.mutate import cut, mutated
from fuzz.target import FalsePass, Target
from samebits.errors import InvalidCertificate
from samebits.oracle import TABLES, judge, writer
from simulator import Simulator

DECIDES: Final = {
    "tokens": {
        "arm",
        "round",
        "trajectory",
        "position",
        "mask",
        "rollout_bits",
        "recompute_bits",
        "train_bits",
        "prefill_bits",
    },
    "trajectories": {
        *("arm", "round", "trajectory", "prompt_tokens", "response_tokens", "finish_reason"),
        *("weight_version_start", "weight_version_end", "trainer_version"),
    },
    "commitments": {"arm", "round", "sequence", "event", "side", "digest"},
    "refits": {"version", "tensor", "sent", "arrived", "loaded"},
    "probes": {"layer", "trajectory", "position", "recompute_bits", "train_bits"},
    "counters": {"arm", "counter", "value"},
    "refusals": {"kind", "refused"},  # a set is compared as JSON: a space more is the same
    "facts": {"arm", "worker", "name"},
    "decisions": {"round", "side", "layer", "what", "rows", "digest"},
}
"""Columns of which no value can be changed without changing what the oracle finds.  The others only describe (a seed, a
reward's rounding), or decide together (a digest that every side reports)."""

ALIGNED_ALONE: Final = {"decisions", "refits"}
"""Tables of which the control arm's rows decide nothing: that arm is there to differ."""

TOGETHER: Final = {("decisions", "digest"), ("refits", "tensor"), ("facts", "name")}
"""Columns whose text a file holds once for all rows, so that damage to it changes every side alike."""


class Evidence(Target):
    """Shared by both: a clean world on disk, of which one table is replaced."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="samebits-fuzz-")) / "evidence"
        world = Simulator.with_experts()
        world.write(self._folder)
        self._recipe = world.recipe
        self._genuine = {name: (self._folder / f"{name}.parquet").read_bytes() for name in TABLES}
        self._rows = world.tables
        self._findings = judge(self._folder, self._recipe).to_dict()
        if self._findings["verdict"] != "passed":
            raise AssertionError(self._findings["reasons"])

    def __del__(self) -> None:
        shutil.rmtree(self._folder.parent, ignore_errors=True)

    def judged(self, table: str, data: bytes) -> bool:
        """Whether the oracle finds exactly the genuine findings with ``data`` in place of ``table``.

        Raises:
            InvalidCertificate: the evidence cannot be judged.
        """
        path = self._folder / f"{table}.parquet"
        path.write_bytes(data)
        try:
            found = judge(self._folder, self._recipe, error=InvalidCertificate).to_dict()
        finally:
            path.write_bytes(self._genuine[table])
        json.dumps(found, allow_nan=False)
        return found == self._findings


class Damaged(Evidence):
    """Random damage to a table's bytes: refused, found out, or without any effect on the values."""

    name, share = "damaged evidence", 6

    def make(self, random: Random) -> bytes:
        table = random.choice(sorted(TABLES))
        data = self._genuine[table]
        changed = cut(random, data) if random.randrange(8) == 0 else mutated(random, data)
        if random.randrange(2):  # the footer is where readers believe most
            footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
            changed = data[:footer] + mutated(random, data[footer:])
        return table.encode() + b"\n" + changed

    def read(self, data: bytes) -> None:
        table, _, content = data.partition(b"\n")
        name = table.decode()
        if self.judged(name, content):
            found, genuine = (pq.read_table(pa.BufferReader(file)) for file in (content, self._genuine[name]))
            _must_agree(name, found, genuine, without=TOGETHER)


class Edited(Evidence):
    """One cell, row or column changed and written as the kit writes: the findings must not stay as they were."""

    name, share = "edited evidence", 4

    def make(self, random: Random) -> bytes:
        table = random.choice(sorted(name for name in TABLES if self._rows[name]))
        rows = self._rows[table]
        kind = random.choice(("cell", "cell", "cell", "cell", "drop", "double", "swap"))
        index, column = random.randrange(len(rows)), random.choice(TABLES[table].names)
        edit: dict[str, Any] = {"table": table, "kind": kind, "row": index, "other": random.randrange(len(rows))}
        if kind == "cell":
            edit |= {"column": column, "value": _other_value(random, TABLES[table].field(column), rows[index][column])}
        return json.dumps(edit).encode()

    def read(self, data: bytes) -> None:
        edit = json.loads(data)
        table, rows = edit["table"], [dict(row) for row in self._rows[edit["table"]]]
        before = [dict(row) for row in rows]
        index, other = edit["row"], edit["other"]
        if edit["kind"] == "cell":
            rows[index][edit["column"]] = edit["value"]
        elif edit["kind"] == "drop":
            del rows[index]
        elif edit["kind"] == "double":
            rows.insert(index, dict(rows[index]))
        else:
            rows[index], rows[other] = rows[other], rows[index]
        content = _written(table, rows)
        if self.judged(table, content):
            _must_agree(table, pa.Table.from_pylist(rows, TABLES[table]), pa.Table.from_pylist(before, TABLES[table]))


def _must_agree(
    name: str, found: pa.Table, genuine: pa.Table, *, without: AbstractSet[tuple[str, str]] = frozenset()
) -> None:
    """The same findings: then nothing that decides may differ.  Tables that are sets may have their rows moved."""
    if name in ALIGNED_ALONE:
        found, genuine = (table.filter(pc.equal(table["arm"], "aligned")) for table in (found, genuine))
    columns = sorted(column for column in DECIDES.get(name, set()) if (name, column) not in without)
    pairs = [tuple(map(str, row.values())) for row in found.select(columns).to_pylist()] if columns else []
    wanted = [tuple(map(str, row.values())) for row in genuine.select(columns).to_pylist()] if columns else []
    if name not in {"tokens", "trajectories", "commitments"}:
        pairs, wanted = sorted(set(pairs)), sorted(set(wanted))
    if pairs != wanted:
        row = next((index for index, (one, two) in enumerate(zip(pairs, wanted, strict=False)) if one != two), -1)
        raise FalsePass(f"{name} differs in a column that decides, and the findings do not: row {row} of {columns}")


def _other_value(random: Random, field: pa.Field, value: Any) -> Any:
    """Another value of the column's type."""
    if pa.types.is_boolean(field.type):
        return not value
    if pa.types.is_floating(field.type):
        return random.choice((0.0, 1.0, -1.0, 1e-300, 1e300, value / 2))
    if pa.types.is_integer(field.type):
        low, high = (0, 2**32 - 1) if field.type == pa.uint32() else (-(2**31), 2**31 - 1)
        near = [(value or 0) + 1, (value or 0) - 1, (value or 0) ^ 1 << random.randrange(31), 0, low, high, 0x7FC00000]
        some = [one for one in near if low <= one <= high and one != value]
        return random.choice([*some, None] if field.nullable and value is not None else some)
    texts = ["", "x", "NaN", "null", "{}", "1e9", "aligned", "control", "x" * 70_000, "\u202e", f"{value} ", value[:-1]]
    return random.choice([text for text in texts if text != value])


def _written(table: str, rows: list[dict[str, Any]]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="samebits-fuzz-") as folder:
        path = Path(folder) / "table.parquet"
        made = pa.Table.from_pylist(rows, TABLES[table])
        writer._write(path, TABLES[table], iter([made] if rows else []))
        return path.read_bytes()
