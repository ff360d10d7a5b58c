"""Troubles of the machine: each ends a run in a named error or not at all, and the run goes on once it is over."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warm
from samebits import certificate
from samebits.certificate import store
from samebits.certify import statement
from samebits.errors import SamebitsError
from samebits.oracle import EvidenceWriter

from .crash import SAME, TIMEOUT, Survived, Ward

KILLED = "killed"


@dataclass(frozen=True)
class Trouble:
    """``patch`` brings it about in the parent; ``expected`` is how the run then ends."""

    name: str
    patch: Callable[[], None]
    expected: str
    """The group of the error, ``killed``, or ``passed``."""
    disk: str | None = None
    """Options of the tmpfs on which the run lies, and those that mend it."""
    mended: str | None = None


def files_of_at_most(size: int) -> Callable[[], None]:
    """As a full quota does it: the kernel refuses to make a file longer (Python ignores SIGXFSZ)."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def the_clock_goes_back() -> None:
    times = iter(f"2026-11-30T12:00:{second:02d}Z" for second in range(59, 0, -1))
    statement.now = lambda: next(times)


def _dies_in(owner: Any, name: str, *, call: int) -> Callable[[], None]:
    """The process ends without a word in the ``call``-th call, before it does anything."""

    def patch() -> None:
        old, count = getattr(owner, name), [0]

        def instead(*some: Any, **named: Any) -> Any:
            count[0] += 1
            if count[0] == call:
                os._exit(9)
            return old(*some, **named)

        setattr(owner, name, instead)

    return patch


def dies_while_assembling() -> None:
    """Half of the tables are there, and one is half-written."""
    from samebits.oracle import writer  # noqa: PLC0415

    assemble = EvidenceWriter.assemble

    def instead(self: EvidenceWriter) -> Path:
        _dies_in(writer, "_rechunk", call=6)()
        return assemble(self)

    EvidenceWriter.assemble = instead


def dies_while_signing() -> None:
    """The bundle's bytes are written, and not renamed into place."""
    sign = certificate.sign_run

    def instead(*some: Any) -> Any:
        _dies_in(store.os, "replace", call=1)()
        _dies_in(Path, "replace", call=1)()
        return sign(*some)

    certificate.sign_run = instead


def nothing() -> None:
    """The folder itself is the trouble."""


TROUBLES = (
    Trouble("files of at most 64 KiB", files_of_at_most(64 * 1024), "machine"),
    Trouble("a full disk", nothing, "machine", disk="size=700k", mended="size=64m"),
    Trouble("a read-only folder", nothing, "input", disk="size=64m,ro", mended="size=64m,rw"),
    Trouble("the clock goes back", the_clock_goes_back, "passed"),
    Trouble("the parent dies while assembling", dies_while_assembling, KILLED),
    Trouble("the parent dies while signing", dies_while_signing, KILLED),
)


def endure(ward: Ward, trouble: Trouble) -> Survived | None:
    """The run in trouble, then without it; None where this machine cannot make such trouble."""
    began = time.monotonic()
    runs = ward.folder / f"trouble-{trouble.name.replace(' ', '-')}"
    runs.mkdir()
    with _disk(runs, trouble.disk) as mounted:
        if not mounted:
            return None
        answer = _run(ward, runs, trouble.patch)
        wrong = [] if _ended_as(answer) == trouble.expected else [f"ended as {answer}"]
        if trouble.mended is not None:
            subprocess.run(["mount", "-o", f"remount,{trouble.mended}", str(runs)], check=True)
        again = _run(ward, runs, nothing)
        if again != {"verdict": "passed"}:
            wrong.append(f"resumed: {again}")
        else:
            tables = ward.digests(runs / "run")
            wrong += [f"{table} differs" for table in SAME if tables[table] != ward.whole[table]]
    return Survived(crash=trouble.name, done=0, wrong=tuple(wrong), seconds=time.monotonic() - began)


def _run(ward: Ward, runs: Path, patch: Callable[[], None]) -> Any:
    def work() -> dict[str, str]:
        patch()
        try:
            finished = warm.certify(ward.order, runs, "run")
            certificate.sign_run(finished.path, ward.key)
        except SamebitsError as error:
            return error.to_dict()
        except OSError as error:  # the command line makes a machine error of it
            return {"error": "machine", "field": str(error.filename), "found": str(error.strerror)}
        return {"verdict": finished.findings.verdict}

    return warm.in_child(work, ward.folder / "log").answer(TIMEOUT)


def _ended_as(answer: Any) -> str:
    if answer is None:
        return KILLED
    return str(answer.get("error") or answer.get("verdict"))


@contextlib.contextmanager
def _disk(folder: Path, options: str | None) -> Iterator[bool]:
    """A tmpfs at ``folder``, if asked for and allowed."""
    if options is None:
        yield True
        return
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)
