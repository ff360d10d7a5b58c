"""The ASGI middleware: judges a request before the server behind it sees any of it."""

from __future__ import annotations

from samebits.errors import GateError
from samebits.gate.http import judgement, refusal, request_body, routes, strict_json
from samebits.gate.http.asgi import App, Receive, Scope, Send
from samebits.gate.http.judgement import Effective
from samebits.gate.settings import raise_first


class Gate:
    """Lets conforming requests through to ``app``, untouched, and answers every other with a refusal (HTTP 400).

    ``effective`` gives the final sampling parameters of a request; without it they must all be stated.  ``limit`` is
    the largest body in bytes.  Responses, streaming or not, pass as they are.
    """

    def __init__(self, app: App, *, effective: Effective | None = None, limit: int = request_body.LIMIT) -> None:
        self.app = app
        self._effective = effective
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, as ASGI has it.

        Raises:
            GateError: the connection is of a kind that cannot be answered with a refusal.
        """
        kind = scope["type"]
        if kind == "lifespan":
            await self.app(scope, receive, send)
        elif kind == "http":
            await self._http(scope, receive, send)
        elif kind == "websocket":
            await refusal.refuse_websocket(routes.websocket_refusal(scope), scope, send)
        else:
            raise GateError("scope", found=repr(kind), accepted="http", next_step="Use HTTP.")

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            dialect = routes.classify(scope)
            if dialect is not None:
                request_body.check_headers(scope)
                content = await request_body.read(scope, receive, limit=self._limit)
                body = strict_json.loads(content)
                raise_first(judgement.conflicts(dialect, body, scope=scope, effective=self._effective))
                receive = request_body.replay(content, receive)
        except GateError as error:
            await refusal.refuse_http(error, send, head=scope["method"] == "HEAD")
            return
        except request_body.Disconnected:
            return
        await self.app(scope, receive, send)
