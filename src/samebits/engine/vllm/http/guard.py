"""The last word: what a route hands to the engine is judged where it is handed over.

``AsyncLLM.generate`` is the one way from vLLM's HTTP routes into the engine.  The guard stands in its place on the
server's engine client, so that no route, plugin or parser can send what the middleware did not foresee.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vllm.exceptions import VLLMValidationError

from samebits.engine.vllm import final
from samebits.errors import GateError
from samebits.gate.request import EMPTY, UNSET, Rule, only
from samebits.gate.settings import raise_first

_ANY: Final = Rule(accepts=lambda _: True, text="anything")

ARGUMENTS: Final[Mapping[str, Rule]] = {
    "prompt_text": _ANY,
    "lora_request": UNSET,
    "tokenization_kwargs": EMPTY,
    "trace_headers": _ANY,
    "priority": only(0),
    "data_parallel_rank": UNSET,
    "session_id": _ANY,
    "kv_hints": UNSET,
    "reasoning_ended": _ANY,  # when structured output begins, and there is none
    "reasoning_parser_kwargs": _ANY,
}
"""Keyword arguments of ``generate`` (vLLM 0.26 to 0.32) beside the prompt, the parameters and the id."""


def conflicts(prompt: object, params: object, arguments: Mapping[str, Any], *, has_watermark: bool) -> list[GateError]:
    """Everything in one call of ``generate`` that does not conform."""
    found = [
        GateError(
            name,
            found=repr(value)[:120] if name in ARGUMENTS else "an unknown argument of the engine",
            accepted=ARGUMENTS[name].text if name in ARGUMENTS else "the arguments that the gate knows",
            next_step="Leave out of the request what sets it.",
        )
        for name, value in arguments.items()
        if name not in ARGUMENTS or not ARGUMENTS[name].accepts(value)
    ]
    if not (isinstance(prompt, dict) and prompt.get("type") == "token"):
        found.append(
            GateError(
                "prompt",
                found=str(prompt.get("type")) if isinstance(prompt, dict) else type(prompt).__name__,
                accepted="token ids",
                next_step="Send text or token ids: the actor receives nothing else.",
            )
        )
    return found + final.conflicts(params, has_watermark=has_watermark)


class Guard:
    """In the place of ``client.generate``: the same call, if it conforms."""

    def __init__(self, client: Any) -> None:
        self._generate = client.generate
        self._has_watermark = has_watermark(client)

    def __call__(self, prompt: Any, sampling_params: Any, request_id: str, **arguments: Any) -> Any:
        """The engine's own stream of outputs.

        Raises:
            VLLMValidationError: at once, not at the first output, so that the server can still answer with HTTP 400.
        """
        try:
            raise_first(conflicts(prompt, sampling_params, arguments, has_watermark=self._has_watermark))
        except GateError as error:
            raise VLLMValidationError(str(error), parameter=error.field) from None
        return self._generate(prompt, sampling_params, request_id, **arguments)


def install(client: Any) -> None:
    """Puts the guard on the engine client of a server, once."""
    if not isinstance(client.generate, Guard):
        client.generate = Guard(client)


def has_watermark(client: Any) -> bool:
    """Whether the engine marks what it samples; vLLM 0.26 knows no watermark."""
    return getattr(client.vllm_config, "watermark_config", None) is not None
