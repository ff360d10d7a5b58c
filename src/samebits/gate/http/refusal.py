"""Refusals in the shape of OpenAI's API, as vLLM's own errors have it: clients show the message, and read the field."""

from __future__ import annotations

import json
from typing import Any, Final

from samebits.errors import GateError
from samebits.gate.http.asgi import Scope, Send

STATUS: Final = 400
_POLICY_VIOLATION: Final = 1008  # RFC 6455, section 7.4.1


def shape(error: GateError) -> dict[str, Any]:
    """``error`` as the object that is sent."""
    return {"error": {"message": str(error), "type": "BadRequestError", "param": error.field, "code": STATUS}}


async def refuse_http(error: GateError, send: Send, *, head: bool = False) -> None:
    """Answers a request with ``error``; to HEAD without a body."""
    body = json.dumps(shape(error)).encode()
    await send(_start("http.response.start", body))
    await send({"type": "http.response.body", "body": b"" if head else body})


async def refuse_websocket(error: GateError, scope: Scope, send: Send) -> None:
    """Refuses the handshake: as an HTTP answer where the server can (an ASGI extension), else by closing (a 403)."""
    if "websocket.http.response" in scope.get("extensions", {}):
        body = json.dumps(shape(error)).encode()
        await send(_start("websocket.http.response.start", body))
        await send({"type": "websocket.http.response.body", "body": body})
    else:
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": str(error)[:120]})


def _start(message: str, body: bytes) -> dict[str, Any]:
    return {
        "type": message,
        "status": STATUS,
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())],
    }
