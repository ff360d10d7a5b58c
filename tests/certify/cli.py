"""The command as a user types it, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TINY = Path(__file__).with_name("tiny.toml")
COMMAND = [sys.executable, "-m", "samebits"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


def environment(home: Path) -> dict[str, str]:
    """This one, but with keys and configuration under ``home``."""
    return {**os.environ, "XDG_CONFIG_HOME": str(home / "config")}


def samebits(*arguments: str | Path, home: Path) -> Ended:
    """Run ``samebits`` to its end."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(home),
        timeout=600,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def start(*arguments: str | Path, home: Path) -> subprocess.Popen[str]:
    """Start ``samebits`` in a process group of its own, as a shell would."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(home),
        start_new_session=True,
    )


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found
