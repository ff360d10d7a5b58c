"""The worker that these tests start: ``python program.py SPOOL``."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from samebits import errors
from samebits.engine.protocol import Sealed
from samebits.spool import Progress, serve
from samebits.spool.folder import write


class Tailored(errors.GateError):
    """A subclass that the parent does not know."""


def echo(params: dict[str, Any], _progress: Progress) -> dict[str, Any]:
    return params


def count(params: dict[str, Any], progress: Progress) -> dict[str, Any]:
    for step in range(params["steps"]):
        progress(step=step)
        time.sleep(params.get("pause", 0))
    return {}


def refuse(params: dict[str, Any], _progress: Progress) -> None:
    cls = Tailored if params["class"] == "Tailored" else getattr(errors, params["class"])
    raise cls("a field", found="1", accepted="2 or 3", next_step="Write 2.")


def stumble(_params: dict[str, Any], _progress: Progress) -> None:
    raise ValueError("two\nlines")


def kill(params: dict[str, Any], _progress: Progress) -> None:
    sys.stdout.write("the last words\n")
    sys.stdout.flush()
    os.kill(os.getpid(), getattr(signal, params["signal"]))
    time.sleep(60)


def crash(_params: dict[str, Any], _progress: Progress) -> None:
    ctypes.string_at(0)


def leave(params: dict[str, Any], _progress: Progress) -> None:
    for line in range(30):
        sys.stdout.write(f"line {line}\n")
    sys.exit(params["status"])


def hang(_params: dict[str, Any], _progress: Progress) -> None:
    time.sleep(600)


def pid(_params: dict[str, Any], _progress: Progress) -> dict[str, Any]:
    return {"pid": os.getpid()}


def deaf(_params: dict[str, Any], _progress: Progress) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def child(_params: dict[str, Any], _progress: Progress) -> dict[str, Any]:
    return {"pid": subprocess.Popen(["sleep", "600"]).pid}


def descendants(params: dict[str, Any], _progress: Progress) -> dict[str, Any]:
    """A child that starts a grandchild and waits."""
    script = "sleep 600 & echo $!; wait"
    process = subprocess.Popen(
        ["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=params["session"]
    )
    assert process.stdout is not None
    return {"pids": [process.pid, int(process.stdout.readline())]}


def sealed(_params: dict[str, Any], _progress: Progress) -> Sealed:
    return Sealed(commitment="00", tokens=3, seconds=0.5)


def environment(_params: dict[str, Any], _progress: Progress) -> dict[str, str]:
    return dict(os.environ)


RESULTS = {"list": [1], "nan": {"loss": float("nan")}, "set": {"tokens": [1, {2}]}, "surrogate": {"text": "\ud800"}}


def give(params: dict[str, Any], _progress: Progress) -> Any:
    return {"text": "x" * params["size"]} if "size" in params else RESULTS[params["what"]]


def forge(params: dict[str, Any], _progress: Progress) -> dict[str, Any]:
    """Write the reply before serve does."""
    write(Path(sys.argv[1]) / "replies" / f"{params['number']:06}.json", params["text"].encode())
    time.sleep(60)
    return {}


if __name__ == "__main__":
    HANDLERS = {
        handler.__name__: handler
        for handler in (
            echo,
            count,
            refuse,
            stumble,
            kill,
            crash,
            leave,
            hang,
            pid,
            deaf,
            child,
            descendants,
            sealed,
            environment,
            give,
            forge,
        )
    }
    serve(Path(sys.argv[1]), HANDLERS, limit=int(sys.argv[2]) if len(sys.argv) > 2 else 2**20)
