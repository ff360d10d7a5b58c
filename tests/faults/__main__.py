"""``python -m faults [--only PATTERN] [--jobs N] [--json] [--list]``: the table of faults and what caught them."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import warm

if __name__ == "__main__":
    warm.clean_start()

from rich.console import Console
from rich.table import Table

from .fault import Fault
from .running import Result, Stage


def main() -> int:
    """0 if every clean twin passed and every fault was caught by the check that it names, else 1."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--only", default="", help="faults and twins whose name matches this pattern")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="runs side by side")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--list", action="store_true", help="only name them")
    asked = parser.parse_args()
    warm.preload()
    from .catalogue import FAULTS, TWINS  # noqa: PLC0415 - torch

    chosen = [fault for fault in (*TWINS, *FAULTS) if re.search(asked.only, fault.name)]
    if asked.list:
        print(*(f"{fault.name}  ({fault.by.name})" for fault in chosen), sep="\n")  # noqa: T201
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="samebits-faults-") as folder:
        results = []
        for result in _tried(chosen, Stage(Path(folder)), asked.jobs):
            results.append(result)
            mark = "caught" if result.caught else "NOT CAUGHT"
            print(f"{mark:<11} {result.fault}: {result.what[:150]}", file=sys.stderr, flush=True)  # noqa: T201
    caught = sum(result.caught for result in results)
    if asked.json:
        document = {"faults": [result.to_dict() for result in results], "caught": caught, "of": len(results)}
        print(json.dumps(document, indent=1))  # noqa: T201
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(_table(results))
        print(f"{caught} of {len(results)} as declared, {time.monotonic() - began:.0f} s")  # noqa: T201
    return 0 if caught == len(results) else 1


def _tried(faults: Iterable[Fault], stage: Stage, jobs: int) -> Iterator[Result]:
    running = []
    for fault in faults:
        if len(running) == jobs:
            first, child, room = running.pop(0)
            yield stage.end(first, child, room)
        running.append((fault, *stage.begin(fault)))
    for first, child, room in running:
        yield stage.end(first, child, room)


def _table(results: Iterable[Result]) -> Table:
    table = Table("fault", "must be caught by", "", "in its words", "s", box=None, pad_edge=False, title_justify="left")
    for result in results:
        mark = "[green]caught[/]" if result.caught else "[bold red]NOT CAUGHT[/]"
        table.add_row(result.fault, result.by, mark, result.what[:200], f"{result.seconds:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
