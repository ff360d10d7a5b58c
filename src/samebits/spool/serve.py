"""The worker's side: answer one call after the other until told to stop."""

from __future__ import annotations

import dataclasses
import difflib
import faulthandler
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from samebits.errors import SamebitsError, WorkerError
from samebits.spool.codec import to_message
from samebits.spool.folder import LIMIT, Folder, Pause, read, write
from samebits.spool.heartbeat import Heart
from samebits.spool.lifeline import Lifeline
from samebits.spool.message import SHUTDOWN, WHERE_ARE_YOU, Call, Failure, Reply, decode, encode, failure_of
from samebits.spool.progress import Progress
from samebits.spool.reaping import Terminated

Handler = Callable[[Mapping[str, Any], Progress], Any]
"""Takes a call's parameters and something to report progress to; returns a mapping, a dataclass, or None for {}."""


def serve(directory: Path, handlers: Mapping[str, Handler], *, limit: int = LIMIT) -> None:
    """Answer the calls in the spool ``directory`` with ``handlers``; returns after the call ``shutdown``.

    The last thing a worker's program does, in its main thread.  Handlers run one at a time, in that thread.  A
    :class:`SamebitsError` travels to the parent and is raised there as the same class; any other exception becomes a
    :class:`WorkerError` there, with its traceback in this process' log.  ``SystemExit`` ends the worker.

    Raises:
        Terminated: SIGTERM; a ``SystemExit`` with status 143.
    """
    # A crash, and a parent that has lost patience, leave the place in the log.  This thread only: the stack of
    # another one that runs meanwhile cannot be read safely.
    faulthandler.enable(all_threads=False)
    faulthandler.register(WHERE_ARE_YOU, all_threads=False)
    folder = Folder(directory)
    progress = Progress(folder, limit)
    lifeline = Lifeline(folder)
    with _terminable(), Heart(folder.heartbeat, lambda: _state(progress), lifeline.check):
        _answer_all(folder, handlers, progress, limit)


def _answer_all(folder: Folder, handlers: Mapping[str, Handler], progress: Progress, limit: int) -> None:
    number = 1
    while True:
        data = _wait_for(folder.request(number), limit)
        method, reply = _answer(data, number, handlers, progress, folder)
        write(folder.reply(number), _encode(reply, method, limit))
        if method == SHUTDOWN:
            return
        number += 1


def _wait_for(path: Path, limit: int) -> bytes | SamebitsError:
    pause = Pause()
    while True:
        try:
            data = read(path, limit)
        except SamebitsError as error:
            return error
        if data is not None:
            return data
        pause.sleep()


def _answer(
    data: bytes | SamebitsError, number: int, handlers: Mapping[str, Handler], progress: Progress, folder: Folder
) -> tuple[str, Reply]:
    """The method called, empty if that could not be read, and the reply."""
    method = ""
    progress.begin(number)
    try:
        call = _call(data, number, folder)
        method = call.method
        result = _result(method, _handler(method, handlers)(call.params, progress))
        progress.end()
        return method, Reply(id=number, result=result, failure=None)
    except SamebitsError as error:
        failure = failure_of(error)
    except Exception as error:  # noqa: BLE001 - whatever a handler raises, the parent hears of it
        traceback.print_exc()
        failure = _unexpected(method, error)
    progress.end()
    return method, Reply(id=number, result=None, failure=failure)


def _call(data: bytes | SamebitsError, number: int, folder: Folder) -> Call:
    if isinstance(data, SamebitsError):
        raise data
    return decode(Call, data, number=number, source=str(folder.request(number).relative_to(folder.path)))


def _handler(method: str, handlers: Mapping[str, Handler]) -> Handler:
    if method == SHUTDOWN:
        return lambda _params, _progress: {}
    if method in handlers:
        return handlers[method]
    near = difflib.get_close_matches(method, handlers, n=1)
    raise WorkerError(
        "method",
        found=repr(method),
        accepted=", ".join(sorted([*handlers, SHUTDOWN])),
        next_step=f"Did you mean {near[0]!r}?" if near else "Call one of these.",
    )


def _result(method: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_message(value)
    if isinstance(value, Mapping):
        return value
    raise TypeError(f"the handler of {method!r} returned a {type(value).__name__}, not a mapping or a dataclass")


def _encode(reply: Reply, method: str, limit: int) -> bytes:
    """The reply's bytes; a reply that cannot be sent becomes a failure that says so."""
    try:
        return encode(reply, limit=limit)
    except SamebitsError as error:
        failure = failure_of(error)
    except Exception as error:  # noqa: BLE001 - a lone surrogate, a recursion: the parent hears of it
        traceback.print_exc()
        failure = _unexpected(method, error)
    return encode(Reply(id=reply.id, result=None, failure=failure), limit=LIMIT)


def _unexpected(method: str, error: Exception) -> Failure:
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno} in {last.name}"
    return Failure(
        kind="unexpected",
        field=method,
        found=f"{type(error).__name__}: {error} ({place}: {last.line})",
        accepted="",
        next_step="",
    )


def _state(progress: Progress) -> dict[str, int]:
    return {"call": progress.call, "progress": progress.count}


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM unwinds the main thread, so that nothing half-written stays behind."""

    def end(number: int, _frame: object) -> None:
        raise Terminated(number)

    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("serve() belongs in the main thread of a worker process")
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
        sys.stdout.flush()
