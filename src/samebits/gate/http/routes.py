"""Every route of vLLM's server, and what the gate does with it.

A positive allowlist on method and path: what stands in neither table is refused.  The tables were read from the source
of vLLM 0.26.0, 0.32.0 and 0.33.0, optional routers included; a test asks the installed vLLM whether one is missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from samebits.errors import GateError
from samebits.gate.http.asgi import Scope
from samebits.gate.http.dialects import DIALECTS, Dialect

HARMLESS: Final[Mapping[str, frozenset[str]]] = {
    # State that can be read.
    "/health": frozenset({"GET"}),
    "/ready": frozenset({"GET"}),
    "/readyz": frozenset({"GET"}),
    "/ping": frozenset({"GET", "POST"}),
    "/version": frozenset({"GET"}),
    "/load": frozenset({"GET"}),
    "/metrics": frozenset({"GET"}),
    "/server_info": frozenset({"GET"}),
    "/v1/models": frozenset({"GET"}),
    "/is_sleeping": frozenset({"GET"}),
    "/is_paused": frozenset({"GET"}),
    "/is_scaling_elastic_ep": frozenset({"POST"}),
    "/weight_info": frozenset({"GET"}),
    "/get_world_size": frozenset({"GET"}),
    "/kv_event_sources": frozenset({"GET"}),
    "/fault_tolerance/status": frozenset({"GET"}),
    "/docs": frozenset({"GET"}),
    "/docs/oauth2-redirect": frozenset({"GET"}),
    "/redoc": frozenset({"GET"}),
    "/openapi.json": frozenset({"GET"}),
    # Text to tokens and back; nothing reaches the engine.
    "/tokenize": frozenset({"POST"}),
    "/detokenize": frozenset({"POST"}),
    "/tokenizer_info": frozenset({"GET"}),
    "/v1/messages/count_tokens": frozenset({"POST"}),
    "/v1/completions/render": frozenset({"POST"}),
    "/v1/chat/completions/render": frozenset({"POST"}),
    "/v1/responses/render": frozenset({"POST"}),
    "/v1/messages/render": frozenset({"POST"}),
    "/v1/completions/derender": frozenset({"POST"}),
    "/v1/chat/completions/derender": frozenset({"POST"}),
}
"""Routes that neither generate nor change anything, by path."""

_STORED_RESPONSE: Final = re.compile(r"/v1/responses/[A-Za-z0-9_-]+")
"""A finished response read back: what was not refused when it was generated."""

_WEIGHTS: Final = "It changes the weights: refits are made by the engine's adapter, which compares their digests."
_LORA: Final = "It changes the weights by an adapter, and none is certified."
_STATE: Final = "It changes the state of the engine under running requests; ask the engine's adapter."
_CONFIGURATION: Final = "It changes the engine's configuration, which is certified as it was constructed."
_MANY: Final = "It generates several answers under one seed. Send each as a request of its own to {0}."
_GUIDED: Final = "It generates under a constraint. Generate with {0} and judge the answer."
_AUDIO: Final = "It generates from audio, and no such model is certified."
_POOLING: Final = "It runs the model without sampling, and no certification covers that. Ask another server."
_NO_SEED: Final = "Its protocol has no field for a seed. Generate with {0}."

REFUSED: Final[Mapping[str, str]] = {
    # Routes that generate, or dispatch to others that do.
    "/v1/messages": _NO_SEED.format("/v1/chat/completions"),
    "/cohere/v2/chat": _GUIDED.format("/v1/chat/completions"),
    "/cohere/v2/chat/render": "Render with /v1/chat/completions/render.",
    "/v1/chat/completions/batch": _MANY.format("/v1/chat/completions"),
    "/generative_scoring": _GUIDED.format("/v1/completions"),
    "/v1/systemone": _GUIDED.format("/v1/completions"),
    "/v1/decisions": _GUIDED.format("/v1/completions"),
    "/invocations": "It dispatches to any other route. Name the route itself, for instance /v1/completions.",
    "/v1/audio/transcriptions": _AUDIO,
    "/v1/audio/translations": _AUDIO,
    "/v1/realtime": _AUDIO,
    # Routes that run the model otherwise.
    "/pooling": _POOLING,
    "/classify": _POOLING,
    "/score": _POOLING,
    "/v1/score": _POOLING,
    "/rerank": _POOLING,
    "/v1/rerank": _POOLING,
    "/v2/rerank": _POOLING,
    "/v1/embeddings": _POOLING,
    "/v2/embed": _POOLING,
    # Routes that change weights.
    "/collective_rpc": "It calls any method of the workers. Ask the engine's adapter.",
    "/init_weight_transfer_engine": _WEIGHTS,
    "/shutdown_weight_transfer_engine": _WEIGHTS,
    "/start_weight_update": _WEIGHTS,
    "/start_draft_weight_update": _WEIGHTS,
    "/update_weights": _WEIGHTS,
    "/finish_weight_update": _WEIGHTS,
    "/update_weight_version": _WEIGHTS,
    "/weight_checker": _WEIGHTS,
    "/v1/load_lora_adapter": _LORA,
    "/v1/unload_lora_adapter": _LORA,
    "/adapters": _LORA,
    # Routes that change state or configuration.
    "/pause": _STATE,
    "/resume": _STATE,
    "/sleep": _STATE,
    "/wake_up": _STATE,
    "/release_kv_cache_memory": _STATE,
    "/abort_requests": _STATE,
    "/inference/v1/abort_requests": _STATE,
    "/reset_prefix_cache": _STATE,
    "/reset_mm_cache": _STATE,
    "/reset_encoder_cache": _STATE,
    "/start_profile": _CONFIGURATION,
    "/stop_profile": _CONFIGURATION,
    "/scale_elastic_ep": _CONFIGURATION,
    "/fault_tolerance/apply": _CONFIGURATION,
    "/static": "It serves the files of the offline documentation; read them elsewhere.",
}
"""Routes of vLLM that are known and refused, with the next step; the unknown ones are refused as well."""

_REFUSED_BELOW: Final = (
    (re.compile(r"/v1/responses/[^/]+/cancel"), _STATE),
    (re.compile(r"/adapters/.*"), _LORA),
    (re.compile(r"/static/.*"), REFUSED["/static"]),
)

_ACCEPTED: Final = f"{', '.join(f'POST {path}' for path in DIALECTS)} and routes that only read"


def classify(scope: Scope) -> Dialect | None:
    """How the body of a request is read: by a dialect if its route generates, by nobody (None) if it is harmless.

    Paths are compared as Starlette's router compares them, after percent-decoding and without ``root_path``; spelled
    in any other way than plainly they are refused.

    Raises:
        GateError: the route is neither; the field is ``route``.
    """
    method, path = scope["method"], route_path(scope)
    if b"%" in (scope.get("raw_path") or b""):
        raise _refusal(method, path, "Write the path without percent-encoding.")
    if path in DIALECTS and method in {"POST", "OPTIONS"}:
        return DIALECTS[path] if method == "POST" else None
    if _STORED_RESPONSE.fullmatch(path) and method in {"GET", "HEAD", "OPTIONS"}:
        return None
    methods = HARMLESS.get(path, frozenset())
    if method in methods or (methods and method == "OPTIONS") or ("GET" in methods and method == "HEAD"):
        return None
    raise _refusal(method, path, _next_step(path))


def route_path(scope: Scope) -> str:
    """The path that the server's router matches (Starlette's ``get_route_path``)."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root) and (path == root or path[len(root)] == "/"):
        return path[len(root) :]
    return path


def websocket_refusal(scope: Scope) -> GateError:
    """The refusal of a websocket: no certified route speaks it."""
    path = route_path(scope)
    return _refusal("WEBSOCKET", path, known_refusal(path) or "Use HTTP.")


def known_refusal(path: str) -> str | None:
    """Why vLLM's route ``path`` is refused, or None: it is not, or nobody knows it."""
    return REFUSED.get(path) or next((why for pattern, why in _REFUSED_BELOW if pattern.fullmatch(path)), None)


def _next_step(path: str) -> str:
    known = known_refusal(path)
    if known is not None:
        return known
    if path != "/" and (path.rstrip("/") in HARMLESS or path.rstrip("/") in DIALECTS):
        return f"Write {path.rstrip('/')}, with its own method and without a slash at the end."
    return "The gate does not know it, and it could generate. Use one that is accepted."


def _refusal(method: str, path: str, next_step: str) -> GateError:
    return GateError("route", found=f"{method} {path!r}"[:200], accepted=_ACCEPTED, next_step=next_step)
