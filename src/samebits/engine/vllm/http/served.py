"""The middleware that ``vllm serve`` loads, and what it asks of the server around it.

Nothing here waits for the engine: the server's own objects hold its defaults (``default_sampling_params``), and its
own protocol classes turn a body into ``SamplingParams``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pydantic import ValidationError
from vllm import SamplingParams
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.entrypoints.scale_out.token_in_token_out.protocol import GenerateRequest

from samebits.engine.vllm.final import flat
from samebits.engine.vllm.http import guard
from samebits.errors import GateError
from samebits.gate import http
from samebits.gate.http import dialects

_Build: TypeAlias = Callable[[dict[str, Any], dict[str, Any], int], SamplingParams]


class Gate(http.Gate):
    """``vllm serve MODEL --middleware samebits.engine.vllm.http.Gate``."""

    def __init__(self, app: http.App) -> None:
        super().__init__(app, effective=effective)


def effective(scope: http.Scope, dialect: http.Dialect, body: dict[str, Any]) -> dict[str, Any]:
    """What the server behind ``scope`` would sample ``body`` with; puts the guard on its engine on the way.

    Raises:
        GateError: the route or the model is not served here, or vLLM's own protocol class refuses the body.
    """
    state = scope["app"].state
    guard.install(state.engine_client)
    _check_model(state, body.get("model"))
    handler, build = _HANDLERS[dialect.name]
    serving = getattr(state, handler, None)
    if serving is None:
        raise GateError(
            "route",
            found=f"a server without {dialect.name}",
            accepted="a route that this server serves",
            next_step="Start it so that it does (--enable-scale-out for tokens in, tokens out), or use another route.",
        )
    try:
        params = build(dict(body), serving.default_sampling_params, serving.model_config.max_model_len)
    except Exception as error:  # noqa: BLE001 - whatever its parser raises, the server would not take this request
        raise _unreadable(error) from None
    return flat(params, has_watermark=guard.has_watermark(state.engine_client))


def _completions(body: dict[str, Any], defaults: dict[str, Any], longest: int) -> SamplingParams:
    request = CompletionRequest.model_validate(body)
    return request.to_sampling_params(_max_tokens(request.max_tokens, defaults, longest), defaults)


def _chat(body: dict[str, Any], defaults: dict[str, Any], longest: int) -> SamplingParams:
    request = ChatCompletionRequest.model_validate(body)
    stated = body.get("max_completion_tokens", body.get("max_tokens"))
    return request.to_sampling_params(_max_tokens(stated, defaults, longest), defaults)


def _responses(body: dict[str, Any], defaults: dict[str, Any], longest: int) -> SamplingParams:
    return ResponsesRequest.model_validate(body).to_sampling_params(_max_tokens(None, defaults, longest), defaults)


def _tokens(body: dict[str, Any], defaults: dict[str, Any], longest: int) -> SamplingParams:
    """The body holds vLLM's own structure; of the server's defaults only that of ``max_tokens`` is applied."""
    request = GenerateRequest.model_validate(body)
    params = request.sampling_params
    if not request.is_sampling_param_provided("max_tokens"):
        params.max_tokens = _max_tokens(None, defaults, longest)
    return params


_HANDLERS: Final[Mapping[str, tuple[str, _Build]]] = {
    dialects.COMPLETIONS.name: ("openai_serving_completion", _completions),
    dialects.CHAT.name: ("openai_serving_chat", _chat),
    dialects.RESPONSES.name: ("openai_serving_responses", _responses),
    dialects.TOKENS.name: ("serving_tokens", _tokens),
}
"""For each dialect the attribute of the server's state that serves it, and how it makes ``SamplingParams``."""


def _max_tokens(stated: int | None, defaults: Mapping[str, Any], longest: int) -> int:
    """As vLLM's ``get_max_tokens``, but for the length of the prompt, which is known only after tokenizing."""
    wanted = stated if stated is not None else defaults.get("max_tokens")
    return longest if wanted is None else min(wanted, longest)


def _check_model(state: Any, name: str | None) -> None:
    """Passes the base model under its served names; adapters have names of their own."""
    names = [model.name for model in state.openai_serving_models.base_model_paths]
    if name and name not in names:
        raise GateError(
            "model",
            found=repr(name)[:120],
            accepted=" or ".join(map(repr, names)),
            next_step="Name the base model; no LoRA adapter is certified.",
        )


def _unreadable(error: Exception) -> GateError:
    field, found = getattr(error, "parameter", None) or "body", str(error)
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in fault["loc"][:1]) or "body"
        found = fault["msg"]
    return GateError(
        field,
        found=found.split("\n", 1)[0][:200],
        accepted="a request that vLLM's own protocol class takes",
        next_step="Mend the field.",
    )
