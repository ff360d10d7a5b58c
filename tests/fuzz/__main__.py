"""``python -m fuzz``: the campaign, or one of its inputs again."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fuzz import campaign
from fuzz.target import input_of
from fuzz.targets import TARGETS


def main() -> int:
    """0 if every input was refused as it should be, or rightly accepted; 1 if any was not."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many, over all targets")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the campaign; another one each second")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="only these")
    parser.add_argument("--again", type=int, help="run this one input of --target and --seed, here and now")
    parser.add_argument("--save", type=Path, default=Path("fuzz-failures"), help="where failing inputs go")
    options = parser.parse_args()
    names = options.target or list(TARGETS)
    if options.again is not None:
        TARGETS[names[0]]().read(input_of(TARGETS[names[0]](), options.seed, options.again))
        return 0
    console = Console(highlight=False)
    console.print(f"seed {options.seed}")
    shown = Table("target", "inputs", "accepted", "failures", "seconds", box=None)
    total = sum(TARGETS[name].share for name in names)
    failures = 0
    for name in names:
        began = time.monotonic()
        inputs = max(1, options.inputs * TARGETS[name].share // total)
        tally = campaign.run(name, options.seed, inputs)
        seconds = f"{time.monotonic() - began:.0f}"
        shown.add_row(name, str(tally.inputs), str(tally.accepted), str(len(tally.failures)), seconds)
        failures += len(tally.failures)
        if tally.failures:
            paths = campaign.failing(TARGETS[name](), tally.failures, options.save)
            for failure, path in zip(tally.failures, paths, strict=True):
                console.print(f"{failure.target} {failure.number}: {failure.what}\n  saved as {path}", markup=False)
                again = f"python -m fuzz --seed {failure.seed} --target '{failure.target}' --again {failure.number}"
                console.print(f"  again: PYTHONPATH=tests {again}", markup=False)
    console.print(shown)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
