"""The parent's side: a worker process to call, watched while it computes, and reaped however this ends."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from samebits.errors import InputError, MachineError, SamebitsError, WorkerError
from samebits.spool.folder import LIMIT, Folder, Pause, read, write
from samebits.spool.group import Group, launch, status_text
from samebits.spool.heartbeat import Heart, Pulse
from samebits.spool.lifeline import whereabouts
from samebits.spool.log import Log
from samebits.spool.message import SHUTDOWN, WHERE_ARE_YOU, Call, Failure, Note, Reply, decode, encode, error_of

OnProgress = Callable[[Mapping[str, Any]], None]

_LOOK: Final = 0.1
_GRACE: Final = 5.0
_LAST_WORDS: Final = 0.2


class Worker:
    """One worker process and its spool; made by :meth:`start`, ended by :meth:`stop` or by leaving the context."""

    def __init__(
        self,
        *,
        name: str,
        folder: Folder,
        group: Group,
        log: Log,
        heart: contextlib.ExitStack,
        ready_timeout: float,
        stale_after: float,
        limit: int,
    ) -> None:
        """Use :meth:`start`."""
        self.name = name
        self._log = log
        self._folder = folder
        self._group = group
        self._heart = heart
        self._pulse = Pulse(folder.heartbeat)
        self._stale_after = stale_after
        self._limit = limit
        self._sent = 0
        self._answered = 0
        self._ended: str | None = None
        self._lock = threading.Lock()
        self._ready_timeout = ready_timeout
        self._started = time.monotonic()
        self._is_ready = False

    @classmethod
    def start(
        cls,
        *,
        name: str,
        command: Sequence[str],
        spool: Path,
        log: Path,
        environment: Mapping[str, str],
        wait: bool = True,
        ready_timeout: float = 120.0,
        stale_after: float = 30.0,
        limit: int = LIMIT,
    ) -> Self:
        """Start ``command``, whose program serves the folder ``spool``, and wait until it does.

        Without ``wait`` the first call waits instead, so that several workers can import torch at once.
        ``environment`` is all that the process gets (:func:`samebits.environment.worker_environment`).  Standard
        output and error go to the end of the file ``log``.  ``ready_timeout`` and ``stale_after`` are seconds; a
        heartbeat that is silent for longer than ``stale_after`` means a hung process.  ``limit`` is the largest
        message in bytes.

        Raises:
            InputError: the spool was used before or cannot be written.
            MachineError: the program or the log's folder is not there.
            WorkerError: the process ended, or was not ready in time.
        """
        folder = Folder(spool)
        folder.claim()
        with contextlib.ExitStack() as stack:
            place = whereabouts()
            stack.enter_context(Heart(folder.parent, lambda: {"whereabouts": place}))
            try:
                log.parent.mkdir(parents=True, exist_ok=True)
                began = log.stat().st_size if log.exists() else 0
                group = launch(command, log, environment)
            except OSError as error:
                raise MachineError(
                    f"worker {name}",
                    found=f"{error.strerror}: {error.filename}",
                    accepted="a program and a log file that can be opened",
                    next_step="Check the command's first word and the log's folder.",
                ) from None
            stack.callback(group.kill)
            worker = cls(
                name=name,
                folder=folder,
                group=group,
                log=Log(log, began),
                heart=stack.pop_all(),
                ready_timeout=ready_timeout,
                stale_after=stale_after,
                limit=limit,
            )
        if wait:
            worker._wait_until_ready()
        return worker

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        return self._group.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Have the worker carry out ``method`` and return its result.

        One call at a time; a second thread waits its turn.  ``timeout`` in seconds, None for none: a handler that
        hangs while its heartbeat goes on is ended by nothing else.  ``on_progress`` receives the newest progress
        fields, in this thread.

        Raises:
            SamebitsError: the handler raised it; same class, same four fields.
            InputError: the parameters are larger than the limit.
            WorkerError: the handler raised something else, or the process died, hung or took too long; in the latter
                cases the process is gone afterwards.
        """
        with self._lock:
            if self._ended is not None:
                self._raise(self._ended, f"a worker that runs, to call {method!r}")
            if not self._is_ready:
                self._wait_until_ready()
            number = self._sent + 1
            data = encode(Call(id=number, method=method, params=params), limit=self._limit)
            try:
                write(self._folder.request(number), data)
                self._sent = number
            except BaseException:
                # Nobody knows whether the worker has seen it.
                self._end(f"interrupted while {method!r} was being sent")
                raise
            reply = self._wait_for_reply(number, method, timeout, on_progress)
            self._answered = number
        if reply.failure is not None:
            raise self._failed(reply.failure, method)
        return dict(reply.result or {})

    def stop(self) -> int:
        """End the worker: ask, then SIGTERM, then SIGKILL to its group; returns its exit status, negative for a signal.

        Nothing is left of it afterwards, however it behaves; a second call does nothing.
        """
        try:
            if self._ended is None and self._group.ended() is None:
                self._ask_to_end()
        finally:
            self._release()
            self._ended = self._ended or "stopped"
        return self._group.ended() or 0

    def _ask_to_end(self) -> None:
        if self._sent == self._answered:  # else it is busy with a call that nobody waits for
            number = self._sent + 1
            with contextlib.suppress(SamebitsError):
                write(self._folder.request(number), encode(Call(id=number, method=SHUTDOWN, params={}), limit=LIMIT))
                self._wait_for_end(_GRACE)
        if self._group.ended() is None:
            self._group.send(signal.SIGTERM)
            self._wait_for_end(_GRACE)

    def _wait_for_end(self, seconds: float) -> None:
        pause, deadline = Pause(), time.monotonic() + seconds
        while self._group.ended() is None and time.monotonic() < deadline:
            pause.sleep()

    def _release(self) -> None:
        """Kill what is left, and stop the parent's heartbeat."""
        self._heart.close()

    def _end(self, why: str) -> None:
        self._ended = why
        self._release()

    def _wait_until_ready(self) -> None:
        pause = Pause()
        try:
            while not self._folder.heartbeat.exists():
                status = self._group.ended()
                if status is not None:
                    self._fail(f"{status_text(status)} before it was ready", "a worker that gets ready")
                if time.monotonic() - self._started > self._ready_timeout:
                    self._fail(f"not ready after {self._ready_timeout:g} s", "a worker that gets ready")
                pause.sleep()
        except BaseException:
            self._release()
            raise
        self._is_ready = True

    def _wait_for_reply(self, number: int, method: str, timeout: float | None, on_progress: OnProgress | None) -> Reply:
        pause, began, looked, seen = Pause(), time.monotonic(), 0.0, 0
        path = self._folder.reply(number)
        while True:
            # Asked before the reply is read: a worker may answer and then end.
            status = self._group.ended()
            data = self._read(path)
            now = time.monotonic()
            if on_progress is not None and (data is not None or now - looked > _LOOK):
                seen = self._pass_on(number, seen, on_progress)
            if data is not None:
                return self._decoded(data, number)
            if status is not None:
                self._fail(f"{status_text(status)} during {method!r}", "a reply")
            if now - looked > _LOOK:
                looked = now
                if self._pulse.listen() > self._stale_after:
                    self._fail(f"hung during {method!r}: no heartbeat for {self._stale_after:g} s", "a heartbeat")
            if timeout is not None and now - began > timeout:
                found = self._late(number, method)
                self._group.send(WHERE_ARE_YOU)
                self._wait_for_end(_LAST_WORDS)
                self._fail(found, f"a reply within {timeout:g} s")
            pause.sleep()

    def _late(self, number: int, method: str) -> str:
        self._pulse.listen()
        inside = self._pulse.state.get("call") == number
        return f"no reply to {method!r}; its heart beats, " + (
            "and it is inside the handler" if inside else "but it has not begun the call"
        )

    def _read(self, path: Path) -> bytes | None:
        try:
            return read(path, self._limit)
        except InputError as error:
            self._fail(f"a reply of {error.found}", error.accepted)

    def _decoded(self, data: bytes, number: int) -> Reply:
        source = str(self._folder.reply(number).relative_to(self._folder.path))
        try:
            reply = decode(Reply, data, number=number, source=f"worker {self.name}: {source}")
        except WorkerError as error:
            self._end(error.found)
            raise
        if (reply.result is None) == (reply.failure is None):
            self._fail("a reply with both or neither of result and failure", "one of them")
        return reply

    def _pass_on(self, number: int, seen: int, on_progress: OnProgress) -> int:
        path = self._folder.progress(number)
        data = self._read(path)
        if data is None:
            return seen
        note = decode(Note, data, number=number, source=f"worker {self.name}: progress/{path.name}")
        if note.count > seen:
            on_progress(note.fields)
        return note.count

    def _failed(self, failure: Failure, method: str) -> SamebitsError:
        error = error_of(failure)
        if error is not None:
            error.add_note(f"raised by {method!r} in worker {self.name}")
            return error
        return WorkerError(
            f"worker {self.name}",
            found=f"{method!r} raised {failure.found}",
            accepted="a reply",
            next_step=f"Read the whole traceback in {self._log.path}.",
        )

    def _fail(self, found: str, accepted: str) -> NoReturn:
        """End the process, then raise."""
        self._end(found)
        self._raise(found, accepted)

    def _raise(self, found: str, accepted: str) -> NoReturn:
        lines = self._log.last_lines()
        raise WorkerError(
            f"worker {self.name}",
            found=found,
            accepted=accepted,
            next_step=f"Its log, {self._log.path}, ends:\n{lines}"
            if lines
            else f"Its log, {self._log.path}, is empty.",
        ) from None
