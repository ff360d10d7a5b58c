"""The body of a request: read once, within a limit, and handed on to the server byte for byte."""

from __future__ import annotations

from typing import Final

from samebits.errors import GateError
from samebits.gate.http.asgi import Message, Receive, Scope, headers

LIMIT: Final = 16 * 2**20
"""Bytes: a prompt of a million token ids takes about 7 MB."""


class Disconnected(Exception):
    """The client went away before its request was complete."""


def check_headers(scope: Scope) -> None:
    """Passes the headers and the query of a generating request.

    Raises:
        GateError: a media type other than JSON, an encoding, a query, or a header that steers vLLM's engine.
    """
    types = headers(scope, b"content-type")
    if len(types) != 1 or not _is_json(types[0]):
        raise GateError(
            "content-type",
            found=" and ".join(map(repr, types))[:120] or "nothing",
            accepted="application/json, once, in UTF-8",
            next_step="Send the request as JSON, and say so.",
        )
    encodings = headers(scope, b"content-encoding")
    if any(value.strip().lower() != "identity" for value in encodings):
        raise GateError(
            "content-encoding",
            found=", ".join(encodings)[:120],
            accepted="none: the server does not unpack",
            next_step="Send the body as it is.",
        )
    if scope.get("query_string", b""):
        raise GateError(
            "query",
            found=repr(scope["query_string"].decode("latin-1"))[:120],
            accepted="none",
            next_step="Put every parameter into the body.",
        )
    for key, value in scope["headers"]:
        name = key.decode("latin-1").lower()
        if name == "x-data-parallel-rank" or name.startswith("x-vllm-"):
            raise GateError(
                name,
                found=repr(value.decode("latin-1"))[:120],
                accepted="no header that steers the engine",
                next_step="Leave it out: scheduling and placement are the row's.",
            )


async def read(scope: Scope, receive: Receive, *, limit: int = LIMIT) -> bytes:
    """The whole body.

    One that is too large is read to its end and thrown away, so that a client which writes before it reads gets to
    see the answer; memory stays within ``limit``.

    Raises:
        GateError: more than ``limit`` bytes.
        Disconnected: the client went away.
    """
    announced = headers(scope, b"content-length")
    size = int(announced[0]) if announced and announced[0].isdecimal() else 0
    content, received, more = bytearray(), 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Disconnected
        chunk: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        received += len(chunk)
        if max(received, size) <= limit:
            content += chunk
        else:
            content.clear()
    if max(received, size) > limit:
        raise GateError(
            "body",
            found=f"{max(received, size)} bytes",
            accepted=f"at most {limit} bytes",
            next_step="Send a shorter prompt.",
        )
    return bytes(content)


def replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives ``body`` once and then whatever ``receive`` gives: the client's disconnect."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


def _is_json(content_type: str) -> bool:
    media, *parameters = (part.strip().lower() for part in content_type.split(";"))
    return media == "application/json" and all(
        parameter in {"", "charset=utf-8", 'charset="utf-8"'} for parameter in parameters
    )
