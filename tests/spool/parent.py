"""A parent to be killed: ``python parent.py SPOOL PROGRAM WAY``; prints its worker's pids, then stays in a call.

WAY: ``reaping`` (inside the context), ``bare`` (without it), ``wrapped`` (the worker is a grandchild), ``deaf`` (the
worker ignores SIGTERM), ``descendants-group`` and ``descendants-session`` (the worker has a child and a grandchild, in
its group or in a session of their own; their pids go to the file ``descendants``).
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from samebits.environment import worker_environment
from samebits.spool import Worker, reaping

spool, program, way = sys.argv[1:]
command = [sys.executable, program, spool]
if way == "wrapped":
    command = ["sh", "-c", f"{sys.executable} {program} {spool}; true"]

with contextlib.ExitStack() as stack:
    if way != "bare":
        stack.enter_context(reaping())
    worker = Worker.start(
        name="tester",
        command=command,
        spool=Path(spool),
        log=Path(spool).with_suffix(".log"),
        environment=worker_environment(1),
    )
    stack.enter_context(worker)
    pid = worker.call("pid", {})["pid"]
    if way.startswith("descendants"):
        below = worker.call("descendants", {"session": way.endswith("session")})["pids"]
        Path(spool).with_name("descendants").write_text(" ".join(map(str, below)))
        worker.call("echo", {})
    if way == "deaf":
        worker.call("deaf", {})
    sys.stdout.write(f"{pid}\n")
    sys.stdout.flush()
    worker.call("count", {"steps": 10**9, "pause": 0.0001})
