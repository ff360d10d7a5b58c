"""``python -m crashes [--random N] [--seed S] [--boundaries] [--json]``: how many runs survived what."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import warm

if __name__ == "__main__":
    warm.clean_start()

from .crash import TIMEOUT, Crash, Survived, Ward
from .troubles import TROUBLES, endure

PHASES = (
    "construct",
    "aligned-load",
    "control-load",
    "exclusions",
    "sampler",
    "aligned-round-000",
    "aligned-probes",
    "control-round-000",
    *(f"aligned-round-{number:03d}" for number in range(1, 11)),
    "measured",
    "judged",
)
VICTIMS = ("parent", "engine", "actor")
FEW = (
    Crash(victim="parent", phase="construct"),
    Crash(victim="engine", phase="aligned-load"),
    Crash(victim="actor", phase="exclusions"),
    Crash(victim="parent", phase="aligned-round-000"),
    Crash(victim="everything", phase="aligned-round-001"),
    Crash(victim="engine", phase="control-round-000"),
    Crash(victim="actor", phase="aligned-round-005"),
    Crash(victim="parent", phase="measured"),
    Crash(victim="parent", phase="judged"),
    Crash(victim="parent", number=signal.SIGTERM, phase="aligned-round-002"),
    Crash(victim="parent", number=signal.SIGINT, phase="aligned-round-003"),
    Crash(victim="engine", number=signal.SIGTERM, phase="aligned-round-004"),
)


def main() -> int:
    """0 if every run survived."""
    parser = argparse.ArgumentParser(prog="python -m crashes", description=__doc__)
    parser.add_argument("--random", type=int, default=0, metavar="N", help="so many at random instants besides")
    parser.add_argument("--seed", type=int, default=0, help="of the random instants")
    parser.add_argument("--boundaries", action="store_true", help="every victim after every phase, not a dozen")
    parser.add_argument("--troubles", default="", help="the machine's troubles whose name matches this pattern")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="runs side by side")
    parser.add_argument("--none", action="store_true", help="no crashes but the random ones")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args()
    warm.preload()
    with tempfile.TemporaryDirectory(prefix="samebits-crashes-") as folder:
        ward = Ward(Path(folder))
        works: list[Callable[[], Survived | None]] = [partial(ward.survive, crash) for crash in _crashes(asked)]
        works += [partial(endure, ward, trouble) for trouble in TROUBLES if re.search(asked.troubles, trouble.name)]
        # Each hand does every so-manieth, in a process of its own.
        hands = [
            warm.in_child(partial(_do, works[hand :: asked.jobs]), ward.folder / "log") for hand in range(asked.jobs)
        ]
        results = [Survived(**row) for hand in hands for row in hand.answer(TIMEOUT * len(works)) or ()]
    lost = len(works) - len(results)
    broken = [result for result in results if result.wrong]
    if asked.json:
        print(json.dumps({"crashes": [result.to_dict() for result in results], "notRun": lost}, indent=1))  # noqa: T201
    else:
        for result in results:
            mark = "; ".join(result.wrong) or f"survived, {result.done} phases kept, {result.seconds:.1f} s"
            print(f"{result.crash}: {mark}")  # noqa: T201
        print(f"{len(results) - len(broken)} of {len(works)} runs survived, {lost} not run")  # noqa: T201
    return 1 if broken or not results else 0


def _do(works: Sequence[Callable[[], Survived | None]]) -> list[dict[str, Any]]:
    """What came of each; a trouble that this machine cannot make is not run."""
    return [asdict(result) for work in works if (result := work()) is not None]


def _crashes(asked: argparse.Namespace) -> Iterator[Crash]:
    if asked.boundaries:
        yield from (Crash(victim=victim, phase=phase) for phase in PHASES for victim in VICTIMS)
    elif not asked.none:
        yield from FEW
    chance = random.Random(asked.seed)  # noqa: S311 - to be repeated
    for _ in range(asked.random):
        number = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
        victim = chance.choice((*VICTIMS, "everything")) if number == signal.SIGKILL else "parent"
        yield Crash(victim=victim, number=number, share=chance.random())


if __name__ == "__main__":
    sys.exit(main())
