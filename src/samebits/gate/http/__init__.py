"""The gate on requests over HTTP: ASGI middleware in front of a server that speaks OpenAI's protocol.

A request passes only if its route is known and harmless, or known and generating with sampling parameters that conform
(RFC WS1, rule 6).  Everything else is refused before the server sees it.  Standard library only, beside the kit's own
rules: it must load inside the server's environment.

:class:`Gate` alone judges the fields as they are written, and therefore wants every parameter stated.  Behind an
``effective`` function it judges what the server would really sample with; for vLLM that is
``samebits.engine.vllm.http.Gate``, loaded with ``vllm serve --middleware samebits.engine.vllm.http.Gate``.
"""

from __future__ import annotations

from samebits.gate.http.asgi import App, Message, Receive, Scope, Send
from samebits.gate.http.dialects import DIALECTS, Dialect
from samebits.gate.http.judgement import Effective
from samebits.gate.http.middleware import Gate

__all__ = ["DIALECTS", "App", "Dialect", "Effective", "Gate", "Message", "Receive", "Scope", "Send"]
