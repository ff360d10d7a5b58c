"""The request bodies of the routes that generate: every field a body may have, and what it may say.

Fields that name a sampling parameter follow :data:`samebits.gate.request.RULES`; the tables here add what only the
protocol has.  What stands in no table is refused, also where vLLM would ignore it: a field that is ignored was sent
for a reason.  Names are those of vLLM 0.26, 0.32 and 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from samebits.gate.request import EMPTY, RULES, SWITCH, TOKENS_MAX, UNSET, Rule, only, or_unset, whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How the body of one generating route spells a request."""

    name: str
    fields: Mapping[str, Rule]
    """What each field accepts."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """The sampling parameter behind a field of another name."""
    nested: str | None = None
    """The field that holds the sampling parameters, where they are an object of their own."""

    namesakes: frozenset[str] = frozenset()
    """Fields called like a sampling parameter that say something else, as chat's boolean ``logprobs``."""

    def sampling(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The sampling parameters that ``body`` states, under vLLM's names; null states nothing."""
        if self.nested is not None:
            inner = body.get(self.nested)
            return _stated(inner) if isinstance(inner, dict) else {}
        return {
            self.aliases.get(name, name): value
            for name, value in _stated(body).items()
            if name in self.aliases or (name in RULES and name not in self.namesakes)
        }


def _stated(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_one_prompt(value: Any) -> bool:
    """A string, or a list of token ids, or a list that holds one of these: two prompts would share one seed."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        value = value[0]
    return (isinstance(value, str) and value != "") or _is_token_ids(value)


def _is_token_ids(value: Any) -> bool:
    # A prompt may have a million of them: no loop in Python.
    return isinstance(value, list) and set(map(type, value)) == {int} and min(value) >= 0 and max(value) <= TOKENS_MAX


def _is_plain_format(value: Any) -> bool:
    return isinstance(value, dict) and value == {"type": "text"}


def _is_plain_text_config(value: Any) -> bool:
    """The Responses API's ``text``: its format constrains, its verbosity only words the prompt."""
    return (
        isinstance(value, dict)
        and value.keys() <= {"format", "verbosity"}
        and (value.get("format") is None or _is_plain_format(value["format"]))
    )


def _is_functions(value: Any) -> bool:
    """Tools that the client runs; the server's own would make it generate several times under one seed."""
    return isinstance(value, list) and all(isinstance(tool, dict) and tool.get("type") == "function" for tool in value)


def _is_stream_options(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() <= {"include_usage", "continuous_usage_stats"}
        and all(item is None or isinstance(item, bool) for item in value.values())
    )


_ANY: Final = Rule(accepts=lambda _: True, text="anything")  # words the prompt
_TEXT: Final = Rule(accepts=lambda value: value is None or isinstance(value, str), text="a string or unset")
_FLAG: Final = or_unset(SWITCH)
_OFF: Final = or_unset(only(False))
_PROMPT: Final = Rule(accepts=_is_one_prompt, text="one prompt, as a string or a list of token ids")
_TOKEN_IDS: Final = Rule(accepts=_is_token_ids, text="a list of token ids")
_MESSAGES: Final = Rule(accepts=lambda value: isinstance(value, list) and bool(value), text="a list of messages")
_PLAIN_FORMAT: Final = or_unset(Rule(accepts=_is_plain_format, text='{"type": "text"}'))
_PLAIN_TEXT: Final = or_unset(Rule(accepts=_is_plain_text_config, text='a format of {"type": "text"}'))
_FUNCTIONS: Final = or_unset(Rule(accepts=_is_functions, text='tools of type "function"'))
_FREE_CHOICE: Final = or_unset(only("none", "auto"))  # "required" and a named tool constrain the answer
_STREAM_OPTIONS: Final = or_unset(
    Rule(accepts=_is_stream_options, text="include_usage and continuous_usage_stats, true or false")
)
_SAMPLING_OBJECT: Final = Rule(accepts=_is_object, text="an object of sampling parameters")


def _sampling(*names: str) -> dict[str, Rule]:
    """The rules of sampling parameters as fields of a body, where null leaves them to the server's defaults."""
    return {name: Rule(accepts=or_unset(RULES[name]).accepts, text=RULES[name].text) for name in names}


_COMMON: Final[Mapping[str, Rule]] = {
    "model": _TEXT,
    "stream": _FLAG,
    "request_id": _TEXT,
    "cache_salt": _TEXT,  # which cached blocks may be used; their bits are the same
    "priority": or_unset(only(0)),
    "kv_transfer_params": EMPTY,
    "ec_transfer_params": EMPTY,
}

_OPENAI: Final[Mapping[str, Rule]] = {
    **_COMMON,
    **_sampling(
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "logit_bias",
        "seed",
        "stop",
        "stop_token_ids",
        "ignore_eos",
        "include_stop_str_in_output",
        "skip_special_tokens",
        "structured_outputs",
        "watermarking",
    ),
    "user": _TEXT,
    "session_id": _TEXT,
    "vllm_xargs": EMPTY,
    "mm_payload": or_unset(only("tensors")),
    "return_mm_kwargs": _FLAG,
}

_COMPLETIONS_AND_CHAT: Final[Mapping[str, Rule]] = {
    **_OPENAI,
    **_sampling(
        "n",
        "best_of",
        "max_tokens",
        "min_tokens",
        "allowed_token_ids",
        "bad_words",
        "prompt_logprobs",
        "logprob_token_ids",
        "spaces_between_special_tokens",
        "truncate_prompt_tokens",
        "routed_experts_prompt_start",
        "repetition_detection",
        "thinking_token_budget",
        "stream_interval",
    ),
    "stream_options": _STREAM_OPTIONS,
    "use_beam_search": _OFF,
    "length_penalty": or_unset(only(1.0)),  # of a beam search
    "truncation_side": UNSET,
    "echo": _OFF,  # the answer would not be generated tokens alone
    "add_special_tokens": _FLAG,
    "response_format": _PLAIN_FORMAT,
    "return_token_ids": _FLAG,
    "return_tokens_as_token_ids": _FLAG,
    "return_token_offsets": _FLAG,
    "return_weight_versions": _FLAG,
}

COMPLETIONS: Final = Dialect(
    name="completions",
    fields=MappingProxyType(
        {
            **_COMPLETIONS_AND_CHAT,
            **_sampling("logprobs"),
            "prompt": _PROMPT,
            "prompt_embeds": UNSET,  # the actor receives token ids only
            "suffix": UNSET,
        }
    ),
)

CHAT: Final = Dialect(
    name="chat completions",
    fields=MappingProxyType(
        {
            **_COMPLETIONS_AND_CHAT,
            "logprobs": _FLAG,
            "top_logprobs": RULES["logprobs"],
            "max_completion_tokens": or_unset(RULES["max_tokens"]),
            "messages": _MESSAGES,
            "tools": _FUNCTIONS,
            "tool_choice": _FREE_CHOICE,
            "parallel_tool_calls": _FLAG,
            "reasoning_effort": _TEXT,
            "include_reasoning": _FLAG,
            "add_generation_prompt": _FLAG,
            "continue_final_message": _FLAG,
            "documents": _ANY,
            "chat_template": _TEXT,
            "chat_template_kwargs": _ANY,
            "media_io_kwargs": EMPTY,
            "mm_processor_kwargs": EMPTY,
            "return_prompt_text": _FLAG,
            "return_assistant_tokens_mask": _FLAG,
        }
    ),
    aliases=MappingProxyType({"top_logprobs": "logprobs", "max_completion_tokens": "max_tokens"}),
    namesakes=frozenset({"logprobs"}),
)

RESPONSES: Final = Dialect(
    name="responses",
    fields=MappingProxyType(
        {
            **_OPENAI,
            **_sampling("spaces_between_special_tokens"),
            "background": _OFF,  # the answer would outlive the request
            "include": _ANY,
            "input": _ANY,
            "instructions": _TEXT,
            "max_output_tokens": or_unset(RULES["max_tokens"]),
            "max_tool_calls": or_unset(whole(0, TOKENS_MAX)),
            "metadata": _ANY,
            "parallel_tool_calls": _FLAG,
            "previous_response_id": _TEXT,
            "previous_input_messages": _ANY,
            "prompt": UNSET,
            "prompt_cache_key": _TEXT,
            "prompt_cache_options": _ANY,
            "prompt_cache_retention": _TEXT,
            "safety_identifier": _TEXT,
            "reasoning": _ANY,
            "include_reasoning": _FLAG,
            "service_tier": or_unset(only("auto", "default")),
            "store": _FLAG,
            "text": _PLAIN_TEXT,
            "tool_choice": _FREE_CHOICE,
            "tools": _FUNCTIONS,
            "top_logprobs": RULES["logprobs"],
            "truncation": or_unset(only("disabled")),
            "enable_response_messages": _FLAG,
            "chat_template_kwargs": _ANY,
            "media_io_kwargs": EMPTY,
            "mm_processor_kwargs": EMPTY,
        }
    ),
    aliases=MappingProxyType({"top_logprobs": "logprobs", "max_output_tokens": "max_tokens"}),
)

TOKENS: Final = Dialect(
    name="tokens in, tokens out",
    fields=MappingProxyType(
        {
            **_COMMON,
            "kv_transfer_params": UNSET,  # passed on even when it is empty
            "ec_transfer_params": UNSET,
            "token_ids": _TOKEN_IDS,
            "token_offsets": _ANY,
            "assistant_tokens_mask": _ANY,
            "sampling_params": _SAMPLING_OBJECT,
            "stream_options": _STREAM_OPTIONS,
            "features": UNSET,  # images and sound
            "content_parts": EMPTY,
            "reasoning_ended": _FLAG,
            "reasoning_parser_kwargs": UNSET,
            "parse_context": UNSET,
            "return_token_ids": _FLAG,
            "output_mode": or_unset(only("tokens", "text")),
        }
    ),
    nested="sampling_params",
)

DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {
        "/v1/completions": COMPLETIONS,
        "/v1/chat/completions": CHAT,
        "/v1/responses": RESPONSES,
        "/inference/v1/generate": TOKENS,
    }
)
"""The routes that generate and are judged, all of them by POST."""
