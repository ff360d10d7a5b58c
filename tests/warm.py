"""Certifications by the dozen: every process of a run is forked from one that has imported torch already.

A tiny certification computes for a few seconds and imports torch for ten.  Here :func:`preload` imports everything
once; :func:`in_child` forks a parent, in which :func:`certify` runs the real certification, and its launcher forks the
workers, each below a real guardian, in a session of its own, over a real spool.  What is not real is only ``exec``:
`tests/certify` has runs with that, and ``--exec`` of the programs that use this module.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NoReturn

from samebits import pins, recipe
from samebits.certify import run as run_room
from samebits.certify.order import Order
from samebits.environment import worker_environment
from samebits.spool import group, guardian

Patch = Callable[[], None]
"""Changes this process; runs once, before the process does what it is for."""

_NO_PATCH: Mapping[tuple[str, str], Patch] = {}


def clean_start() -> None:
    """Start this program again in a worker's environment, unless that was done: torch reads variables on import."""
    wanted = worker_environment(1, {"PYTHONPATH": os.pathsep.join(filter(None, sys.path[1:]))})
    wanted |= {name: os.environ[name] for name in ("XDG_CONFIG_HOME",) if name in os.environ}
    if os.environ.get("OMP_WAIT_POLICY") != wanted["OMP_WAIT_POLICY"]:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], wanted)  # noqa: S606 - this very program


def preload() -> None:
    """Import what workers and parent need, torch first of all, and start no thread."""
    import torch  # noqa: PLC0415

    import samebits.actor.worker  # noqa: PLC0415
    import samebits.engine.native  # noqa: PLC0415
    import samebits.engine.worker  # noqa: PLC0415
    import samebits.models.prepare  # noqa: F401, PLC0415
    from samebits.workload.requirements import require  # noqa: PLC0415

    require("reasoning_gym", "reasoning-gym")  # without those of its requirements that nobody needs

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)  # imports the whole of torch._inductor
    # What a row says of the installed build is checked once; hashing a wheel's files in each run tests nothing more.
    row, _ = pins.load("cpu")
    required, build = pins.require(row), pins.torch_build(row)
    pins.torch_build = lambda _: build
    pins.require = lambda *_, **__: required


@dataclass(frozen=True)
class WarmLauncher:
    """``samebits.environment.Launcher``: workers are forked, the model folder is the one made before."""

    prepared: Path

    def command(self, module: str, *arguments: str) -> list[str]:
        if module == "samebits.models.prepare":
            return ["cat", str(self.prepared)]
        return [sys.executable, module, *arguments]

    def environment(self, threads: int) -> dict[str, str]:
        return worker_environment(threads)


class Quiet:
    """A reporter that nobody listens to; ``on_live`` is told what the run is at."""

    def __init__(self, on_live: Callable[[str], None] = lambda _: None) -> None:
        self._on_live = on_live

    def line(self, text: str) -> None:
        del text

    def live(self, text: str) -> None:
        self._on_live(text)


def unchanged(text: str) -> str:
    """A recipe or row as it is."""
    return text


def order(
    toml: Path,
    change: Callable[[str], str] = unchanged,
    change_row: Callable[[str], str] = unchanged,
    *,
    scratch: Path,
    warm: bool = True,
) -> Order:
    """The recipe file on row ``cpu``, the text of either changed if asked; the model is made here and now.

    Raises:
        SamebitsError: the recipe is refused, or its model cannot be made.
    """
    text = change(toml.read_text())
    loaded = recipe.parse(text.encode(), source=toml.name)
    row_file = change_row(pins.load("cpu")[1].decode()).encode()
    row = pins.parse(row_file, source="cpu.toml")
    made = Order(recipe=loaded, recipe_file=text.encode(), row=row, row_file=row_file)
    if not warm:
        return made
    prepared = scratch / f"{loaded.id}-{loaded.model.seed}.prepared.json"
    from samebits.models.prepare import prepare  # noqa: PLC0415 - torch

    with contextlib.redirect_stderr(io.StringIO()):
        prepared.write_text(json.dumps(_plain(prepare(loaded.model))))
    return Order(recipe=loaded, recipe_file=text.encode(), row=row, row_file=row_file, launcher=WarmLauncher(prepared))


def prepared_launcher(run: Path) -> WarmLauncher:
    """Of the run in the folder ``run``, which :func:`order` ordered."""
    (prepared,) = run.parent.glob("*.prepared.json")
    return WarmLauncher(prepared)


def _plain(made: Any) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.__dataclass_fields__}


def certify(asked: Order, runs: Path, run_id: str, reporter: Quiet | None = None) -> run_room.Finished:
    """A certification in this process, or what is left of one whose folder exists."""
    if (runs / run_id / "run.json").exists():
        return run_room.resume(asked, runs / run_id, reporter=reporter or Quiet())
    return run_room.start(asked, runs=runs, run_id=run_id, reporter=reporter or Quiet())


@dataclass
class Child:
    """A forked process: its pid, and where its answer comes from."""

    pid: int
    pipe: int
    began: float = field(default_factory=time.monotonic)

    def answer(self, timeout: float) -> Any:
        """What the child's function returned; None if it was killed.

        Raises:
            TimeoutError: it is still running; it has been killed.
        """
        data = b""
        deadline = self.began + timeout
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not _readable(self.pipe, left):
                os.kill(self.pid, signal.SIGKILL)
                self.wait()
                raise TimeoutError(f"still running after {timeout:g} s")
            some = os.read(self.pipe, 1 << 16)
            if not some:
                break
            data += some
        self.wait()
        return json.loads(data) if data else None

    def wait(self) -> int:
        os.close(self.pipe)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _readable(pipe: int, seconds: float) -> bool:
    import select  # noqa: PLC0415

    return bool(select.select([pipe], [], [], seconds)[0])


def in_child(work: Callable[[], Any], log: Path, patches: Mapping[tuple[str, str], Patch] = _NO_PATCH) -> Child:
    """Fork a process that does ``work`` and answers with its JSON; its standard error goes to ``log``.

    ``patches`` go into the workers that it starts, by side and arm: ``("engine", "aligned")``.
    """
    receive, send = os.pipe()
    pid = os.fork()
    if pid:
        os.close(send)
        return Child(pid, receive)
    status = 1
    try:
        os.setsid()
        guardian.prctl(guardian.PR_SET_PDEATHSIG, signal.SIGKILL)  # this program is ended: so is what it tries out
        with log.open("ab") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        group.start_guarded = functools.partial(_start_forked, patches=patches)
        data = json.dumps(work()).encode()
        while data:
            data = data[os.write(send, data) :]
        status = 0
    except BaseException as error:  # noqa: BLE001 - a forked process never returns into its parent's code
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            status = error.code
        else:
            traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


class _Forked:
    """What ``group.Group`` needs of a ``Popen``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, 0 if deadline is None else os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired("a forked worker", timeout)
            else:
                time.sleep(0.002)
        return self.returncode


def _start_forked(
    command: Sequence[str],
    lifeline: int,
    stream: IO[bytes],
    environment: Mapping[str, str],
    patches: Mapping[tuple[str, str], Patch],
) -> _Forked:
    """``group.start_guarded`` without exec."""
    _, module, spool = command
    side, arm = Path(spool).name.split("-")
    output = stream.fileno()
    pid = os.fork()
    if pid:
        return _Forked(pid)
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # The other guardians' lifelines are this process' too, as they would not be after exec.
        os.closerange(3, lifeline)
        os.closerange(lifeline + 1, 4096)
        os.environ.clear()
        os.environ.update(environment)
        guardian.guard(lifeline, lambda: _work(module, spool, patches.get((side, arm))))
    finally:
        os._exit(70)


def _work(module: str, spool: str, patch: Patch | None) -> NoReturn:
    status = 1
    try:
        if patch is not None:
            patch()
        sys.modules[module].main([spool])
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - as in a program of its own
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
