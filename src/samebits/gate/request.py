"""The gate on requests: the *final effective* sampling parameters of each one (RFC WS1, rule 6).

The oracle compares raw logprobs, so a logits processor would not break the comparison: it would make the oracle
certify an off-policy sample.  Hence a positive allowlist.  Field names are those of vLLM's ``SamplingParams``
(0.26 to 0.33), and each field accepts every spelling of "off" that vLLM itself takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from samebits.errors import GateError
from samebits.gate.settings import hint, raise_first
from samebits.pins import Range, Values

SEED_MAX: Final = 2**63 - 1
TOKENS_MAX: Final = 10_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What one sampling parameter accepts, as a test and in words."""

    accepts: Callable[[Any], bool]
    text: str


def _only(*values: bool | float | str) -> Rule:
    accepted = Values(values)
    return Rule(accepts=accepted.accepts, text=str(accepted))


def _whole(minimum: int, maximum: int) -> Rule:
    accepted = Range(minimum, maximum)
    return Rule(accepts=accepted.accepts, text=f"a whole number, {accepted}")


def _or_unset(rule: Rule) -> Rule:
    return Rule(accepts=lambda value: value is None or rule.accepts(value), text=f"{rule.text} or unset")


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, list | dict | tuple | str) and not value)


def _is_token_list(value: Any) -> bool:
    return value is None or (
        isinstance(value, list | tuple) and all(type(token) is int and 0 <= token <= TOKENS_MAX for token in value)
    )


_UNSET: Final = _only()
_EMPTY: Final = Rule(accepts=_is_empty, text="unset or empty")
_TOKENS: Final = Rule(accepts=_is_token_list, text="unset or a list of token ids")
_SWITCH: Final = _only(False, True)
_SAMPLED_ONLY: Final = _or_unset(_only(0, 1))

RULES: Final[Mapping[str, Rule]] = {
    # What shapes the distribution.
    "temperature": _only(1.0),
    "top_p": _only(1.0),
    "top_k": _or_unset(_only(0, -1)),
    "min_p": _or_unset(_only(0.0)),
    "presence_penalty": _only(0.0),
    "frequency_penalty": _only(0.0),
    "repetition_penalty": _only(1.0),
    "logit_bias": _EMPTY,
    "allowed_token_ids": _UNSET,  # vLLM takes an empty list for a mistake, not for "off"
    "bad_words": _EMPTY,
    "structured_outputs": _UNSET,
    "guided_decoding": _UNSET,  # the name of structured_outputs until 0.11
    "logits_processors": _EMPTY,
    "extra_args": _EMPTY,
    "min_tokens": _only(0),  # more would mask the stop tokens' logits
    "thinking_token_budget": _or_unset(_only(-1)),  # forces the token that ends thinking
    "trace_decode_token_ids": _UNSET,  # forces every token
    "repetition_detection": _UNSET,
    # How many, and from which random stream.
    "n": _only(1),  # more would share one seed
    "best_of": _or_unset(_only(1)),
    "seed": _whole(0, SEED_MAX),  # without one a draw comes from a stream that the batch shares
    # Where a response ends.
    "max_tokens": _whole(1, TOKENS_MAX),
    "stop": _EMPTY,  # a string can end a response inside a token
    "stop_token_ids": _TOKENS,
    "ignore_eos": _only(False),  # else a trajectory runs on behind its own end
    "include_stop_str_in_output": _SWITCH,
    # What goes in and what is reported; none of it reaches the logits.
    "truncate_prompt_tokens": _UNSET,
    "logprobs": _SAMPLED_ONLY,
    "prompt_logprobs": _SAMPLED_ONLY,
    "prompt_logprob_token_ids": _UNSET,
    "prompt_logprob_start": _UNSET,
    "logprob_token_ids": _UNSET,
    "flat_logprobs": _SWITCH,
    "detokenize": _SWITCH,
    "skip_special_tokens": _SWITCH,
    "spaces_between_special_tokens": _SWITCH,
    "output_kind": _only(0, 1, 2, "CUMULATIVE", "DELTA", "FINAL_ONLY"),
    "output_text_buffer_length": _only(0),
    "stream_interval": _or_unset(_whole(1, TOKENS_MAX)),
    "skip_clone": _SWITCH,
    "skip_reading_prefix_cache": _or_unset(_SWITCH),
    "routed_experts_prompt_start": _only(0),
}
"""Every sampling parameter that may be named, and what it may say."""

SMOKE_RULES: Final[Mapping[str, Rule]] = {**RULES, "temperature": _only(1.0, 0.0)}
"""The same with greedy decoding let in: for ``smoke``, never for a certification."""

REQUIRED: Final = (
    # Left out, these come from the model's generation_config.json (as in vllm serve), which often says top_k = 20.
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
)
"""Parameters that a request must state."""


def conflicts(sampling: Mapping[str, Any], *, request_id: str, rules: Mapping[str, Rule] = RULES) -> list[GateError]:
    """Every parameter that is unknown or not accepted, then every required one that is missing."""
    found = [
        _unknown(name, request_id, rules) if name not in rules else _value(name, value, request_id, rules[name])
        for name, value in sampling.items()
        if name not in rules or not rules[name].accepts(value)
    ]
    missing = [
        GateError(
            _field(request_id, name),
            found="nothing",
            accepted=rules[name].text,
            next_step="State it: a default would come from the engine or from the model's folder.",
        )
        for name in REQUIRED
        if name not in sampling
    ]
    return found + missing


def check(sampling: Mapping[str, Any], *, request_id: str, rules: Mapping[str, Rule] = RULES) -> None:
    """Passes a conforming request.

    Raises:
        GateError: the first conflict, with the others named behind it.
    """
    raise_first(conflicts(sampling, request_id=request_id, rules=rules))


def _field(request_id: str, name: str) -> str:
    return f"request {request_id!r}: {name}"


def _unknown(name: str, request_id: str, rules: Mapping[str, Rule]) -> GateError:
    return GateError(
        _field(request_id, name),
        found="an unknown sampling parameter",
        accepted="the names of vLLM's SamplingParams",
        next_step=hint(name, rules),
    )


def _value(name: str, value: Any, request_id: str, rule: Rule) -> GateError:
    return GateError(
        _field(request_id, name),
        found=repr(value)[:120],
        accepted=rule.text,
        next_step="Sample from the unprocessed softmax, or leave this request out of the certification.",
    )
