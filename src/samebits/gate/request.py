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
from samebits.gate.settings import Accepted, nearest, raise_first

SEED_MAX: Final = 2**63 - 1
TOKENS_MAX: Final = 10_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What one sampling parameter accepts, as a test and in words."""

    admits: Callable[[Any], bool]
    text: str


def _of(accepted: Accepted) -> Rule:
    return Rule(admits=accepted.admits, text=str(accepted))


def _only(*values: bool | float | str, none: bool = False) -> Rule:
    return _of(Accepted(values=values, none=none))


def _whole(minimum: int, maximum: int) -> Rule:
    return _of(Accepted(minimum=minimum, maximum=maximum))


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, list | dict | tuple | str) and not value)


def _is_token_list(value: Any) -> bool:
    return value is None or (
        isinstance(value, list | tuple) and all(type(token) is int and 0 <= token <= TOKENS_MAX for token in value)
    )


_EMPTY: Final = Rule(admits=_is_empty, text="None or empty")
_TOKENS: Final = Rule(admits=_is_token_list, text="None or a list of token ids")
_SWITCH: Final = _only(False, True)
_SAMPLED_ONLY: Final = _only(0, 1, none=True)

RULES: Final[Mapping[str, Rule]] = {
    # What shapes the distribution.
    "temperature": _only(1.0, 1),
    "top_p": _only(1.0, 1),
    "top_k": _only(0, -1, none=True),  # vLLM up to 0.8 spelled "off" −1
    "min_p": _only(0.0, 0, none=True),
    "presence_penalty": _only(0.0, 0),
    "frequency_penalty": _only(0.0, 0),
    "repetition_penalty": _only(1.0, 1),
    "logit_bias": _EMPTY,
    "allowed_token_ids": _only(none=True),  # an empty list is an error in vLLM, not "off"
    "bad_words": _EMPTY,
    "structured_outputs": _only(none=True),
    "guided_decoding": _only(none=True),  # its name until 0.11
    "logits_processors": _EMPTY,
    "extra_args": _EMPTY,
    "min_tokens": _only(0),  # more would mask the stop tokens' logits
    "thinking_token_budget": _only(-1, none=True),  # forces the end-of-thinking token
    "trace_decode_token_ids": _only(none=True),  # forces every token
    "repetition_detection": _only(none=True),
    # How many, and which random stream.
    "n": _only(1),  # more would share one seed
    "best_of": _only(1, none=True),
    "seed": _whole(0, SEED_MAX),  # vLLM draws from the batch's generator without one: then neighbours matter
    # Where a response ends.
    "max_tokens": _whole(1, TOKENS_MAX),
    "stop": _EMPTY,  # strings end a response somewhere inside a token
    "stop_token_ids": _TOKENS,
    "ignore_eos": _SWITCH,
    "include_stop_str_in_output": _SWITCH,
    # What goes in and what is reported; none of it reaches the logits.
    "truncate_prompt_tokens": _only(none=True),
    "logprobs": _SAMPLED_ONLY,
    "prompt_logprobs": _SAMPLED_ONLY,
    "prompt_logprob_token_ids": _only(none=True),
    "prompt_logprob_start": _only(none=True),
    "logprob_token_ids": _only(none=True),
    "flat_logprobs": _SWITCH,
    "detokenize": _SWITCH,
    "skip_special_tokens": _SWITCH,
    "spaces_between_special_tokens": _SWITCH,
    "output_kind": _only(0, 1, 2, "CUMULATIVE", "DELTA", "FINAL_ONLY"),
    "output_text_buffer_length": _only(0),
    "stream_interval": _of(Accepted(minimum=1, maximum=TOKENS_MAX, none=True)),
    "skip_clone": _SWITCH,
    "skip_reading_prefix_cache": _only(False, True, none=True),
    "routed_experts_prompt_start": _only(0),
}
"""Every sampling parameter that may be named, and what it may say."""

REQUIRED: Final = (
    # Left out, these come from the model's generation_config.json (vllm serve), which often says top_k = 20.
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

SMOKE_RULES: Final[Mapping[str, Rule]] = {**RULES, "temperature": _only(1.0, 1, 0.0, 0)}
"""The same with greedy decoding let in: for ``smoke``, never for a certification."""


def conforming(seed: int) -> dict[str, Any]:
    """Sampling parameters that the gate passes: plain softmax sampling from the stream of ``seed``."""
    return {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "seed": seed,
    }


def conflicts(sampling: Mapping[str, Any], *, request_id: str, rules: Mapping[str, Rule] = RULES) -> list[GateError]:
    """Every parameter that is unknown or not accepted, then every required one that is missing."""
    found = [
        _unknown(name, request_id, rules) if name not in rules else _value(name, value, request_id, rules[name])
        for name, value in sampling.items()
        if name not in rules or not rules[name].admits(value)
    ]
    missing = [
        GateError(
            f"request {request_id!r}: {name}",
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


def _unknown(name: str, request_id: str, rules: Mapping[str, Rule]) -> GateError:
    return GateError(
        f"request {request_id!r}: {name}",
        found="an unknown sampling parameter",
        accepted="the names of vLLM's SamplingParams",
        next_step=nearest(name, rules),
    )


def _value(name: str, value: Any, request_id: str, rule: Rule) -> GateError:
    return GateError(
        f"request {request_id!r}: {name}",
        found=repr(value)[:120],
        accepted=rule.text,
        next_step="Sample from the unprocessed softmax, or leave this request out of the certification.",
    )
