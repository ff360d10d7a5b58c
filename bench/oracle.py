"""The oracle against reading its evidence, in one run: ``python bench/oracle.py [--tokens 5000000] [--json]``.

Target (design: speed): judging takes at most 1.3 times the time to read the evidence columns, and memory does not grow
with the number of tokens.  Each measurement is a process of its own that does both in turn; *growth* is how much more
memory the process needed at its peak for judging all tokens than for judging a quarter of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from samebits import recipe
from samebits.bits import from_float32
from samebits.oracle import TABLES, EvidenceReader, EvidenceWriter, judge

PROMPT, RESPONSE, PER_ROUND = 64, 448, 512
CHUNK = PER_ROUND * (PROMPT + RESPONSE)
RECIPE = Path(__file__).parents[1] / "recipes" / "dense-smollm2.toml"


def synthesise(folder: Path, tokens: int) -> None:
    """Evidence of ``tokens`` token rows, equal on all sides, as a passing run of that length has them."""
    random = np.random.default_rng(0)
    writer = EvidenceWriter(folder)
    for round_ in range(max(1, tokens // CHUNK)):
        writer.part(f"aligned-{round_:06d}", {"tokens": _tokens(random, round_), "trajectories": _trajectories(round_)})
    writer.assemble()
    writer.discard_parts()


def _tokens(random: np.random.Generator, round_: int) -> pa.Table:
    position = np.tile(np.arange(PROMPT + RESPONSE, dtype=np.int32), PER_ROUND)
    patterns = from_float32(-random.exponential(1.3, CHUNK).astype(np.float32))
    side = pa.array(patterns, mask=position < PROMPT)
    columns = {
        "arm": pa.array(["aligned"]).take(pa.array(np.zeros(CHUNK, dtype=np.int32))),
        "round": np.full(CHUNK, round_, dtype=np.int32),
        "trajectory": np.repeat(np.arange(PER_ROUND, dtype=np.int32), PROMPT + RESPONSE),
        "position": position,
        "token_id": random.integers(0, 49_152, CHUNK, dtype=np.int32),
        "mask": position >= PROMPT,
    }
    sides = {f"{name}_bits": side for name in ("rollout", "recompute", "train", "prefill")}
    return pa.table({**columns, **sides}, schema=TABLES["tokens"])


def _trajectories(round_: int) -> dict[str, Any]:
    counts = {"prompt_tokens": PROMPT, "response_tokens": RESPONSE}
    same = {"round", "weight_version_start", "weight_version_end", "trainer_version"}
    texts = {"arm": "aligned", "finish_reason": "length", "seed": "0", "reward": "0.5", "advantage": "0"}
    texts["sampling"] = json.dumps({**recipe.CONFORMING}, sort_keys=True)
    columns: dict[str, Any] = {}
    for field in TABLES["trajectories"]:
        if field.name in texts:
            columns[field.name] = [texts[field.name]] * PER_ROUND
        elif field.name == "trajectory":
            columns[field.name] = list(range(PER_ROUND))
        elif field.name in same:
            columns[field.name] = [round_] * PER_ROUND
        else:
            columns[field.name] = [counts.get(field.name, index // 8) for index in range(PER_ROUND)]
    return columns


def read_columns(folder: Path) -> int:
    """All columns of all tables, decoded and dropped, as anybody would read them: nothing is checked."""
    rows = 0
    for table, schema in TABLES.items():
        texts = [field.name for field in schema if field.type == pa.string()]
        with pq.ParquetFile(folder / f"{table}.parquet", read_dictionary=texts, pre_buffer=False) as file:
            rows += sum(batch.num_rows for batch in file.iter_batches(batch_size=1 << 17))
    return rows


def measure(folder: Path, repeats: int) -> Iterator[list[float]]:
    """Seconds to read, wall and CPU, and seconds to judge, in turn."""
    plan, _ = recipe.load(RECIPE)
    for _ in range(repeats):
        start = _clocks()
        read_columns(folder)
        middle = _clocks()
        findings = judge(folder, plan)
        end = _clocks()
        assert findings.exactness.mismatches == 0  # noqa: S101 - else this measures another path
        yield [*(middle - start), *(end - middle)]


def _clocks() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([time.perf_counter(), time.process_time()])


def child(folder: Path, repeats: int) -> dict[str, Any]:
    """Measured in a process of its own."""
    output = subprocess.run(
        [sys.executable, __file__, "--child", str(folder), "--repeats", str(repeats)],
        check=True,
        capture_output=True,
    )
    result: dict[str, Any] = json.loads(output.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        times = list(measure(options.child, options.repeats))
        peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])  # getrusage has the parent's
        medians = [statistics.median(column) for column in zip(*times, strict=True)]
        print(json.dumps({"seconds": medians, "peak_mib": peak / 1024}))
        return
    with tempfile.TemporaryDirectory() as scratch:
        few, many = Path(scratch) / "few", Path(scratch) / "many"
        synthesise(few, options.tokens // 4)
        synthesise(many, options.tokens)
        rows = EvidenceReader(many).rows("tokens")
        small, large = child(few, options.repeats), child(many, options.repeats)
    read, read_cpu, judged, judged_cpu = large["seconds"]
    line = {
        "benchmark": "oracle",
        "tokens": rows,
        "read_seconds": round(read, 4),
        "judge_seconds": round(judged, 4),
        "judge_over_read": round(judged / read, 3),
        "target": 1.3,
        "cpu_judge_over_read": round(judged_cpu / read_cpu, 3),
        "tokens_per_second": round(rows / judged),
        "peak_mib": round(large["peak_mib"]),
        "growth_mib": round(large["peak_mib"] - small["peak_mib"]),
    }
    if options.json:
        print(json.dumps(line))
        return
    table = Table("", "value")
    for name, value in line.items():
        table.add_row(name.replace("_", " "), str(value))
    Console().print(table)


if __name__ == "__main__":
    main()
