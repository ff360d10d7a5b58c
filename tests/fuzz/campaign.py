"""Many inputs, in a process that may die of any of them.

A worker runs the inputs of one target one after the other and writes the number of the one that it is at into a file
mapped into memory.  Python's own hangs end by an alarm inside the worker; hangs and deaths in C code are seen from
outside, where the number says which input it was.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from fuzz.target import Target, input_of
from fuzz.targets import TARGETS
from samebits.errors import SamebitsError
from watchdog import Hang, watched

SECONDS: Final = 20.0
"""That an input may take; the slowest honest one takes a tenth of a second on an idle core."""
MEMORY: Final = 6 << 30
"""Bytes of address space for a worker: what allocates without end ends here."""
PATIENCE: Final = 3.0
"""Times ``SECONDS`` until a worker that no alarm wakes is killed."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An input that a reader did not survive, or took for another."""

    target: str
    seed: int
    number: int
    what: str


@dataclass(kw_only=True)
class Tally:
    """What became of a target's inputs."""

    inputs: int = 0
    accepted: int = 0
    failures: list[Failure]


def attempt(target: Target, seed: int, number: int, seconds: float = SECONDS) -> tuple[bool, str | None]:
    """Gives one input to its reader: whether it was accepted, and what went wrong if anything did."""
    data = input_of(target, seed, number)
    try:
        with watched(seconds):
            target.read(data)
    except SamebitsError:
        return False, None
    except Hang as hang:
        return False, f"hang: {hang}"
    except Exception as error:  # noqa: BLE001 - any other class is what is looked for
        return False, f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
    return True, None


def run(name: str, seed: int, inputs: int, *, seconds: float = SECONDS) -> Tally:
    """The first ``inputs`` inputs of target ``name``, in as many processes as die of them."""
    tally = Tally(inputs=inputs, failures=[])
    start = 0
    with tempfile.TemporaryDirectory(prefix="samebits-fuzz-") as folder:
        while start < inputs:
            worker = _Worker(Path(folder), name, seed, range(start, inputs), seconds)
            died = worker.wait()
            tally.accepted += worker.accepted
            tally.failures += worker.reported()
            if died is None:
                break
            tally.failures.append(Failure(target=name, seed=seed, number=worker.at, what=died))
            start = worker.at + 1
    return tally


class _Worker:
    """One process over a range of inputs."""

    def __init__(self, folder: Path, name: str, seed: int, numbers: range, seconds: float) -> None:
        self._seconds = seconds
        self._report = folder / f"{numbers.start}.jsonl"
        self._state = folder / f"{numbers.start}.state"
        self._state.write_bytes(numbers.start.to_bytes(8, "little") + bytes(8))
        command = [sys.executable, "-m", "fuzz.campaign", name, *map(str, (seed, numbers.start, numbers.stop, seconds))]
        with self._report.open("wb") as report:
            self._process = subprocess.Popen([*command, str(self._state)], stdout=report, env=_environment())

    @property
    def at(self) -> int:
        """The input that it is at, or was when it died."""
        return int.from_bytes(self._state.read_bytes()[:8], "little")

    @property
    def accepted(self) -> int:
        return int.from_bytes(self._state.read_bytes()[8:16], "little")

    def wait(self) -> str | None:
        """None at its good end, else how it died."""
        last, since = self.at, time.monotonic()
        while self._process.poll() is None:
            if self.at != last:
                last, since = self.at, time.monotonic()
            elif time.monotonic() - since > self._seconds * PATIENCE:
                self._process.kill()
                self._process.wait()
                return "hang: no alarm woke it"
            time.sleep(0.05)
        return f"died with {self._process.returncode}" if self._process.returncode else None

    def reported(self) -> list[Failure]:
        return [Failure(**json.loads(line)) for line in self._report.read_text().splitlines()]


def _environment() -> dict[str, str]:
    """Where a worker finds this package, which is not installed."""
    paths = [str(Path(__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def work(target: Target, seed: int, numbers: range, seconds: float, state: Path) -> None:
    """What a worker does; failures go to standard output as JSON lines."""
    accepted = 0
    with state.open("r+b") as file, mmap.mmap(file.fileno(), 16) as shared:
        for number in numbers:
            shared[:16] = number.to_bytes(8, "little") + accepted.to_bytes(8, "little")
            was_accepted, what = attempt(target, seed, number, seconds)
            accepted += was_accepted
            if what is not None:
                failure = Failure(target=target.name, seed=seed, number=number, what=what)
                sys.stdout.write(f"{json.dumps(asdict(failure))}\n")
                sys.stdout.flush()
        shared[8:16] = accepted.to_bytes(8, "little")


def failing(target: Target, failures: list[Failure], folder: Path) -> Iterator[Path]:
    """Saves the input of each failure, and what it did, in ``folder``."""
    for failure in failures:
        path = folder / f"{failure.target.replace(' ', '-')}-{failure.seed}-{failure.number}"
        folder.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".input").write_bytes(input_of(target, failure.seed, failure.number))
        path.with_suffix(".txt").write_text(failure.what)
        yield path.with_suffix(".input")


def named(name: str) -> type[Target]:
    """The target of this name, or the class at ``module:Class``: the tests of this module bring their own."""
    module, _, attribute = name.partition(":")
    if not attribute:
        return TARGETS[name]
    found: type[Target] = getattr(importlib.import_module(module), attribute)
    return found


def main(arguments: list[str]) -> None:
    """A worker's command line."""
    name, seed, start, stop, seconds, state = arguments
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    work(named(name)(), int(seed), range(int(start), int(stop)), float(seconds), Path(state))


if __name__ == "__main__":
    main(sys.argv[1:])
