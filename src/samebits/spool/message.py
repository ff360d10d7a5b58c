"""What is in a file of the spool: a call, a reply or a note of progress, versioned and strictly read."""

from __future__ import annotations

import json
import math
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeVar

from samebits import errors
from samebits.errors import SamebitsError, WorkerError
from samebits.spool.codec import from_message, to_message
from samebits.spool.folder import too_large

VERSION: Final = 1
SHUTDOWN: Final = "shutdown"
"""The method that every worker answers: reply, then leave :func:`samebits.spool.serve`."""
WHERE_ARE_YOU: Final = signal.SIGUSR1
"""The signal at which a worker writes its main thread's stack into the log, even from deep inside a kernel."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """Parent to worker."""

    protocol: int = VERSION
    id: int
    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """What a handler raised. ``kind`` names a class of :mod:`samebits.errors`, or is ``unexpected``.

    An unexpected one has the exception's type, message and place in ``found``.
    """

    kind: str
    field: str
    found: str
    accepted: str
    next_step: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """Worker to parent: a result or a failure, the other is null."""

    protocol: int = VERSION
    id: int
    result: Mapping[str, Any] | None
    failure: Failure | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """Worker to parent while a call is in progress; ``count`` grows with each."""

    protocol: int = VERSION
    id: int
    count: int
    fields: Mapping[str, Any]


_SURROGATE: Final = re.compile(rb"\\u[dD][89abAB]")


class Message(Protocol):
    """What all messages have."""

    @property
    def protocol(self) -> int: ...
    @property
    def id(self) -> int: ...


MessageT = TypeVar("MessageT", bound=Message)


def encode(message: Call | Reply | Note, *, limit: int) -> bytes:
    """One JSON document in ASCII.

    Raises:
        InputError: larger than ``limit`` bytes.
        WorkerError: it holds something that is not JSON, with its path.
    """
    data = json.dumps(to_message(message), separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(data) > limit:
        raise too_large(_title(message), len(data), limit)
    return data


def decode(cls: type[MessageT], data: bytes, *, number: int, source: str) -> MessageT:
    """The message in ``data``, which came from the file ``source`` and must be number ``number``.

    Raises:
        WorkerError: truncated, not JSON, another protocol version, another message, or a field that is wrong.
    """
    value = load(data, source)
    # Versions are compared before fields: a newer protocol may have other fields.
    version = value.get("protocol") if isinstance(value, dict) else None
    if version != VERSION or isinstance(version, bool):
        raise WorkerError(
            f"{source}: protocol",
            found=json.dumps(version),
            accepted=str(VERSION),
            next_step="Install the same samebits in the parent's and in the worker's environment.",
        )
    message = from_message(cls, value, where=f"{source}: {cls.__name__}")
    if message.id != number:
        raise _foreign(f"{source}: id", str(message.id), str(number))
    return message


def load(data: bytes, source: str) -> Any:
    """``data`` as JSON, and nothing that another reader might understand differently.

    Raises:
        WorkerError: truncated, not JSON, a name twice, a number that is not finite, text that is no Unicode.
    """
    try:
        text = data.decode("utf-8")
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_each_name_once)
        if _SURROGATE.search(data):  # half a pair, or a whole one: encoding tells
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        found = "not UTF-8"
    except UnicodeEncodeError:
        found = "not JSON: a lone surrogate"
    except json.JSONDecodeError as error:
        truncated = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        found = "truncated JSON" if truncated else f"not JSON: {error}"
    except ValueError as error:
        found = f"not JSON: {error}"
    except RecursionError:
        found = "not JSON: nested too deeply"
    else:
        return value
    raise _foreign(source, f"{found} ({len(data)} bytes)", "one whole JSON document")


def failure_of(error: SamebitsError) -> Failure:
    """``error`` as it travels; a subclass made elsewhere travels as its nearest class in :mod:`samebits.errors`."""
    kind = next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == errors.__name__)
    return Failure(kind=kind, field=error.field, found=error.found, accepted=error.accepted, next_step=error.next_step)


def error_of(failure: Failure) -> SamebitsError | None:
    """The error to raise again, or None if ``kind`` names none."""
    cls = getattr(errors, failure.kind, None)
    if not (isinstance(cls, type) and issubclass(cls, SamebitsError)):
        return None
    return cls(failure.field, found=failure.found, accepted=failure.accepted, next_step=failure.next_step)


def _title(message: Call | Reply | Note) -> str:
    return f"the call of {message.method!r}" if isinstance(message, Call) else f"{type(message).__name__} {message.id}"


def _no_constant(name: str) -> Literal[0]:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:80]} is beyond all numbers")
    return value


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name twice in one object")
    return found


def _foreign(field: str, found: str, accepted: str) -> WorkerError:
    return WorkerError(
        field, found=found, accepted=accepted, next_step="Nothing but samebits may write into a spool; start a new run."
    )
