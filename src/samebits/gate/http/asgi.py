"""The words of ASGI 3 that the gate uses; the specification is asgi.readthedocs.io, "HTTP & WebSocket"."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def headers(scope: Scope, name: bytes) -> list[str]:
    """Every value of the header ``name`` (lower case), in order."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
