"""One crash: a run is started, somebody in it is killed at some instant, and it is resumed until it is through."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq

import warm
from samebits import certificate
from samebits.certificate import keys
from samebits.errors import SamebitsError

RECIPE = Path(__file__).parents[1] / "faults" / "recipes" / "dense.toml"
TIMEOUT = 300.0
SAME = ("tokens", "trajectories", "commitments", "refits", "probes", "counters", "sampler", "refusals", "facts")
"""Tables that a resumed run must have to the last byte; durations are its own."""

Victim = Literal["parent", "engine", "actor", "everything"]


@dataclass(frozen=True, kw_only=True)
class Crash:
    """Who is hit by which signal, and when: once the manifest names ``phase``, or after ``share`` of a whole run."""

    victim: Victim
    number: signal.Signals = signal.SIGKILL
    phase: str | None = None
    share: float = 0.0

    @property
    def name(self) -> str:
        when = f"after {self.phase}" if self.phase else f"at {self.share:.3f} of the run"
        return f"{self.number.name} to {self.victim} {when}"


@dataclass(frozen=True, kw_only=True)
class Survived:
    """What came of it; ``wrong`` is empty if all is as it must be."""

    crash: str
    done: int
    """Phases that the manifest named when the run had ended."""
    wrong: tuple[str, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "seconds": f"{self.seconds:.1f}"}


class Ward:
    """An unbroken run to compare with, and room for broken ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = keys.generate_key("crashes", folder).private_path
        self.order = warm.order(RECIPE, scratch=folder)
        began = time.monotonic()
        answer = self._start("whole").answer(TIMEOUT)
        self.seconds = time.monotonic() - began
        if answer != {"verdict": "passed"}:
            raise RuntimeError(f"the unbroken run: {answer}; {(folder / 'log').read_text()[-2000:]}")
        self.whole = self.digests(folder / "whole")

    def survive(self, crash: Crash) -> Survived:
        """Start, hit, look around, resume, compare."""
        began = time.monotonic()
        name = Path(tempfile.mkdtemp(dir=self.folder)).name
        run = self.folder / name
        run.rmdir()
        child = self._start(name)
        everybody = self._hit(crash, child, run, began)
        with contextlib.suppress(TimeoutError):
            child.answer(60.0)
        wrong = [f"still running: {left}" for left in _left(everybody)]
        wrong += _believed_too_early(run)
        done = len(_phases(run))
        try:
            answer = self._start(name).answer(TIMEOUT)
        except TimeoutError as error:
            answer = {"error": str(error)}
        if answer != {"verdict": "passed"}:
            wrong.append(f"resumed: {answer}")
        else:
            digests = self.digests(run)
            wrong += [f"{table} differs" for table in SAME if digests[table] != self.whole[table]]
            wrong += [f"left behind: {path}" for path in _leftovers(run)]
        return Survived(crash=crash.name, done=done, wrong=tuple(wrong), seconds=time.monotonic() - began)

    def _start(self, name: str) -> warm.Child:
        def work() -> dict[str, str]:
            try:
                finished = warm.certify(self.order, self.folder, name)
                certificate.sign_run(finished.path, self.key)
            except SamebitsError as error:
                return error.to_dict()
            return {"verdict": finished.findings.verdict}

        return warm.in_child(work, self.folder / "log")

    def _hit(self, crash: Crash, child: warm.Child, run: Path, began: float) -> set[int]:
        """Everybody below the run, once the signal is sent; the run may have been through before."""
        seen: set[int] = set()
        while _is_alive(child.pid):
            seen |= set(_below(child.pid))
            if crash.phase in _phases(run) if crash.phase else time.monotonic() - began >= crash.share * self.seconds:
                seen |= set(_below(child.pid))
                for pid in _victims(crash.victim, child.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, crash.number)
                break
            time.sleep(0.002)
        return seen

    def digests(self, run: Path) -> dict[str, Any]:
        """Rows of the tables that must be the same."""
        return {table: _rows(run / "certificate.evidence" / f"{table}.parquet") for table in SAME}


def _rows(path: Path) -> Any:
    return pq.read_table(path).to_pydict()


def _phases(run: Path) -> Mapping[str, Any]:
    """Finished ones.  The manifest is replaced whole, so it can be read at any instant."""
    try:
        phases: Mapping[str, Any] = json.loads((run / "run.json").read_text())["phases"]
    except FileNotFoundError:
        return {}
    return phases


def _believed_too_early(run: Path) -> Iterator[str]:
    """A statement or certificate is there only once everything before it is."""
    done = _phases(run)
    if (run / "certificate.statement.json").exists() and "measured" not in done:
        yield "a statement of a run that was not measured"
    if (run / "certificate.sigstore.json").exists() and "judged" not in done:
        yield "a certificate of a run that was not judged"
    for path in run.glob("parts/*.parquet"):
        try:
            pq.read_table(path)
        except OSError as error:
            yield f"half-written: {path.name}: {error}"


def _leftovers(run: Path) -> Iterator[str]:
    for path in run.rglob("*"):
        if path.name != ".lock" and (path.name.startswith(".") or path.suffix in {".tmp", ".partial"}):
            yield path.name


def _victims(victim: Victim, parent: int) -> list[int]:
    if victim == "parent":
        return [parent]
    below = _below(parent)
    if victim == "everything":
        return [parent, *below]
    # guardian → worker: the worker of a side is a grandchild whose log has the side's name.
    return [pid for pid in below if _log_of(pid).startswith(f"{victim}-aligned") and _parent_of(pid) != parent]


def _log_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/fd/1").readlink().name
    except OSError:
        return ""


def _parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _below(pid: int) -> list[int]:
    """All descendants of ``pid``."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            children.setdefault(_parent_of(int(entry.name)), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _left(pids: set[int], seconds: float = 20.0) -> list[int]:
    """Who of ``pids`` is still there after a while."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if _is_alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left
