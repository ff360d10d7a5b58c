"""Rule 6, stated independently of the gate: what sampling parameters leave the raw softmax as it is.

The gate refuses requests while a run goes on; this list judges what the evidence says was in force.  Names are those of
vLLM's ``SamplingParams``.  The list is closed: a parameter that it does not know may change the distribution.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

Accepts = Callable[[Any], bool]


def _number(*accepted: float) -> Accepts:
    return lambda value: type(value) in {int, float} and value in accepted


def _number_or_none(*accepted: float) -> Accepts:
    number = _number(*accepted)
    return lambda value: value is None or number(value)


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, list | dict | str) and not value)


def _anything(value: Any) -> bool:
    del value
    return True


STATED: Final[Mapping[str, tuple[Accepts, str]]] = {
    "temperature": (_number(1), "1"),
    "top_p": (_number(1), "1"),
    "top_k": (_number_or_none(0, -1), "0 or -1"),
    "min_p": (_number_or_none(0), "0"),
    "presence_penalty": (_number(0), "0"),
    "frequency_penalty": (_number(0), "0"),
    "repetition_penalty": (_number(1), "1"),
}
"""What must be stated: left out, a default would come from the engine or from the model's folder."""

NEUTRAL: Final[Mapping[str, tuple[Accepts, str]]] = {
    "logit_bias": (_absent, "nothing"),
    "bad_words": (_absent, "nothing"),
    "allowed_token_ids": (lambda value: value is None, "nothing"),
    "structured_outputs": (lambda value: value is None, "nothing"),
    "guided_decoding": (lambda value: value is None, "nothing"),
    "logits_processors": (_absent, "nothing"),
    "extra_args": (_absent, "nothing"),
    "repetition_detection": (lambda value: value is None, "nothing"),
    "trace_decode_token_ids": (lambda value: value is None, "nothing"),
    "watermarking": (lambda value: value is False, "false"),
    "thinking_token_budget": (_number_or_none(-1), "nothing"),
    "min_tokens": (_number(0), "0"),  # more would mask the stop tokens' logits
    "n": (_number(1), "1"),
    "best_of": (_number_or_none(1), "1"),
    "stop": (_absent, "nothing"),  # a string may end a response inside a token
    "truncate_prompt_tokens": (lambda value: value is None, "nothing"),
    "logprob_token_ids": (lambda value: value is None, "nothing"),
    "prompt_logprob_token_ids": (lambda value: value is None, "nothing"),
    "prompt_logprob_start": (lambda value: value is None, "nothing"),
    "output_text_buffer_length": (_number(0), "0"),
    "routed_experts_prompt_start": (_number(0), "0"),
    # These choose the random stream, the length of a response, or what is reported.
    "seed": (_anything, ""),
    "max_tokens": (_anything, ""),
    "stop_token_ids": (_anything, ""),
    "ignore_eos": (_anything, ""),
    "include_stop_str_in_output": (_anything, ""),
    "logprobs": (_anything, ""),
    "prompt_logprobs": (_anything, ""),
    "flat_logprobs": (_anything, ""),
    "detokenize": (_anything, ""),
    "skip_special_tokens": (_anything, ""),
    "spaces_between_special_tokens": (_anything, ""),
    "output_kind": (_anything, ""),
    "skip_reading_prefix_cache": (_anything, ""),
    "skip_clone": (_anything, ""),
    "stream_interval": (_anything, ""),
}
"""What may be stated, if it is off or does not reach the logits."""


_KNOWN: Final = {**STATED, **NEUTRAL}
_FAULTS_KEPT: Final = 64


@functools.lru_cache(maxsize=1024)
def nonconforming(sampling: str) -> tuple[str, ...]:
    """What is wrong with one request's final effective sampling parameters (JSON text), nothing if they conform."""
    try:
        stated = json.loads(sampling, object_pairs_hook=_each_once, parse_constant=_no_number)
        json.dumps(stated, ensure_ascii=False).encode()  # no lone surrogates: no two readers agree on those
    except (ValueError, RecursionError):
        stated = None
    if not isinstance(stated, dict):
        return ("sampling parameters that are not a JSON object",)
    faults = [f"{name} is not stated" for name in STATED if name not in stated]
    for name, value in stated.items():
        accepts, accepted = _KNOWN.get(name, (None, ""))
        if accepts is None:
            faults.append(f"{name[:80]!r} is not a known parameter")
        elif not accepts(value):
            faults.append(f"{name} is {json.dumps(value)[:80]}, not {accepted}")
    return tuple(faults[:_FAULTS_KEPT])


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a name that is stated twice, one reader takes the first value and another the last."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a duplicate name")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
