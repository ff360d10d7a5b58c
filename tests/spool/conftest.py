from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from samebits.environment import worker_environment
from samebits.spool import Worker

PROGRAM = Path(__file__).with_name("program.py")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Starts the program next door; keywords go to ``Worker.start``."""
    numbers = itertools.count(1)
    with contextlib.ExitStack() as stack:

        def start(**settings: Any) -> Worker:
            spool = settings.pop("spool", tmp_path / f"spool-{next(numbers)}")
            settings = {
                "name": "tester",
                "command": [sys.executable, str(PROGRAM), str(spool)],
                "log": tmp_path / "tester.log",
                "environment": worker_environment(1),
                **settings,
            }
            return stack.enter_context(Worker.start(spool=spool, **settings))

        yield start


@pytest.fixture
def program() -> Path:
    return PROGRAM


@pytest.fixture(name="is_running")
def is_running_fixture() -> Callable[[int], bool]:
    return is_running


@pytest.fixture(name="ends")
def ends_fixture() -> Callable[[int], bool]:
    return ends


def is_running(pid: int) -> bool:
    """Whether ``pid`` runs; a zombie does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return False


def ends(pid: int) -> bool:
    """Whether ``pid`` has ended within 20 seconds."""
    deadline = time.monotonic() + 20
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(pid)
