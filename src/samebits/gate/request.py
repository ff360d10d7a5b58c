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


def only(*values: bool | float | str) -> Rule:
    """Accepts exactly ``values``: 1 and 1.0 are the same, 1 and true are not. Without any: only *unset*."""
    accepted = Values(values)
    return Rule(accepts=accepted.accepts, text=str(accepted))


def whole(minimum: int, maximum: int) -> Rule:
    """Accepts whole numbers from ``minimum`` to ``maximum``, both included."""
    accepted = Range(minimum, maximum)
    return Rule(accepts=accepted.accepts, text=f"a whole number, {accepted}")


def or_unset(rule: Rule) -> Rule:
    """Accepts what ``rule`` accepts, and None."""
    return Rule(accepts=lambda value: value is None or rule.accepts(value), text=f"{rule.text} or unset")


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, list | dict | tuple | str) and not value)


def _is_token_list(value: Any) -> bool:
    return value is None or (
        isinstance(value, list | tuple) and all(type(token) is int and 0 <= token <= TOKENS_MAX for token in value)
    )


UNSET: Final = only()
EMPTY: Final = Rule(accepts=_is_empty, text="unset or empty")
_TOKENS: Final = Rule(accepts=_is_token_list, text="unset or a list of token ids")
SWITCH: Final = only(False, True)
_SAMPLED_ONLY: Final = or_unset(only(0, 1))

RULES: Final[Mapping[str, Rule]] = {
    # What shapes the distribution.
    "temperature": only(1.0),
    "top_p": only(1.0),
    "top_k": or_unset(only(0, -1)),
    "min_p": or_unset(only(0.0)),
    "watermarking": only(False),  # unset means on wherever the engine has a watermark
    "presence_penalty": only(0.0),
    "frequency_penalty": only(0.0),
    "repetition_penalty": only(1.0),
    "logit_bias": EMPTY,
    "allowed_token_ids": UNSET,  # vLLM takes an empty list for a mistake, not for "off"
    "bad_words": EMPTY,
    "structured_outputs": UNSET,
    "guided_decoding": UNSET,  # the name of structured_outputs until 0.11
    "logits_processors": EMPTY,
    "extra_args": EMPTY,
    "min_tokens": only(0),  # more would mask the stop tokens' logits
    "thinking_token_budget": or_unset(only(-1)),  # forces the token that ends thinking
    "trace_decode_token_ids": UNSET,  # forces every token
    "repetition_detection": UNSET,
    # How many, and from which random stream.
    "n": only(1),  # more take their seeds from the engine: it counts up from the request's
    "best_of": or_unset(only(1)),
    "seed": whole(0, SEED_MAX),  # without one a draw comes from a stream that the batch shares
    # Where a response ends.
    "max_tokens": whole(1, TOKENS_MAX),
    "stop": EMPTY,  # a string can end a response inside a token
    "stop_token_ids": _TOKENS,
    "ignore_eos": only(False),  # else a trajectory runs on behind its own end
    "include_stop_str_in_output": SWITCH,
    # What goes in and what is reported; none of it reaches the logits.
    "truncate_prompt_tokens": UNSET,
    "logprobs": _SAMPLED_ONLY,
    "prompt_logprobs": _SAMPLED_ONLY,
    "prompt_logprob_token_ids": UNSET,
    "prompt_logprob_start": UNSET,
    "logprob_token_ids": UNSET,
    "flat_logprobs": SWITCH,
    "detokenize": SWITCH,
    "skip_special_tokens": SWITCH,
    "spaces_between_special_tokens": SWITCH,
    "output_kind": only(0, 1, 2, "CUMULATIVE", "DELTA", "FINAL_ONLY"),
    "output_text_buffer_length": only(0),
    "stream_interval": or_unset(whole(1, TOKENS_MAX)),
    "skip_clone": SWITCH,
    "skip_reading_prefix_cache": or_unset(SWITCH),
    "routed_experts_prompt_start": only(0),
}
"""Every sampling parameter that may be named, and what it may say."""

SMOKE_RULES: Final[Mapping[str, Rule]] = {**RULES, "temperature": only(1.0, 0.0)}
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


def conflicts(
    sampling: Mapping[str, Any], *, request_id: str | None, rules: Mapping[str, Rule] = RULES
) -> list[GateError]:
    """Every parameter that is unknown or not accepted, then every required one that is missing.

    Without a ``request_id`` the errors' fields are the bare names.
    """
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


def check(sampling: Mapping[str, Any], *, request_id: str | None, rules: Mapping[str, Rule] = RULES) -> None:
    """Passes a conforming request.

    Raises:
        GateError: the first conflict, with the others named behind it.
    """
    raise_first(conflicts(sampling, request_id=request_id, rules=rules))


def _field(request_id: str | None, name: str) -> str:
    return name if request_id is None else f"request {request_id!r}: {name}"


def _unknown(name: str, request_id: str | None, rules: Mapping[str, Rule]) -> GateError:
    return GateError(
        _field(request_id, name),
        found="an unknown sampling parameter",
        accepted="the names of vLLM's SamplingParams",
        next_step=hint(name, rules),
    )


def _value(name: str, value: Any, request_id: str | None, rule: Rule) -> GateError:
    return GateError(
        _field(request_id, name),
        found=repr(value)[:120],
        accepted=rule.text,
        next_step="Sample from the unprocessed softmax, or leave this request out of the certification.",
    )
