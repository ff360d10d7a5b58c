"""Requests: gated one by one, then checked against the model; nothing is generated unless all pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from samebits.engine.protocol import Request, WholeSequence
from samebits.errors import GateError, InputError
from samebits.gate import request as gate


def check_requests(
    requests: Sequence[Request],
    *,
    max_model_len: int,
    vocab_size: int,
    rules: Mapping[str, gate.Rule] = gate.RULES,
) -> None:
    """That every request may be, and can be, generated.

    Raises:
        GateError: sampling parameters that are not certified; names the request and the field.
        InputError: no requests, two of one id, or a prompt that is empty, too long or of unknown tokens.
    """
    for request in requests:
        gate.check(effective_sampling(request), request_id=request.request_id, rules=rules)
    if not requests:
        raise InputError("requests", found="an empty list", accepted="at least one request", next_step="Add a request.")
    seen: set[str] = set()
    for request in requests:
        field = f"request {request.request_id!r}"
        if request.request_id in seen:
            raise InputError(
                f"{field}: request_id", found="twice", accepted="each id once", next_step="Rename one of the two."
            )
        seen.add(request.request_id)
        _check_prompt(request, field, max_model_len, vocab_size)


def effective_sampling(request: Request) -> dict[str, Any]:
    """``request.sampling`` with what the request itself says of seed and end.

    Raises:
        GateError: ``sampling`` says otherwise.
    """
    own: Mapping[str, Any] = {
        "seed": request.seed,
        "max_tokens": request.max_tokens,
        "stop_token_ids": request.stop_token_ids,
    }
    for name, value in own.items():
        said = request.sampling.get(name)
        if said is not None and said != value:
            raise GateError(
                f"request {request.request_id!r}: {name}",
                found=f"{said!r} in sampling, {value!r} in the request",
                accepted="the same in both",
                next_step="State it once.",
            )
    return {**own, **request.sampling}


def check_sequences(sequences: Sequence[WholeSequence], *, max_model_len: int, vocab_size: int) -> None:
    """That every sequence can be scored.

    Raises:
        InputError: a prompt that is empty or longer than its sequence, or tokens that do not fit the model.
    """
    for index, sequence in enumerate(sequences):
        field = f"sequences[{index}]"
        if not 1 <= sequence.prompt_length <= len(sequence.token_ids):
            raise InputError(
                f"{field}.prompt_length",
                found=sequence.prompt_length,
                accepted=f"1 to {len(sequence.token_ids)}, the sequence's length",
                next_step="The first response token needs a token before it to be predicted from.",
            )
        _check_length(f"{field}.token_ids", len(sequence.token_ids), max_model_len)
        _check_tokens(f"{field}.token_ids", sequence.token_ids, vocab_size)


def _check_prompt(request: Request, field: str, max_model_len: int, vocab_size: int) -> None:
    prompt = request.prompt_token_ids
    if not prompt:
        raise InputError(
            f"{field}: prompt_token_ids",
            found="an empty list",
            accepted="at least one token",
            next_step="The first response token needs a token before it to be predicted from.",
        )
    if request.arrival_step < 0:
        raise InputError(
            f"{field}: arrival_step", found=request.arrival_step, accepted="0 or more", next_step="Correct the value."
        )
    _check_tokens(f"{field}: prompt_token_ids", prompt, vocab_size)
    _check_length(f"{field}: prompt with max_tokens", len(prompt) + request.max_tokens, max_model_len)


def _check_length(field: str, tokens: int, max_model_len: int) -> None:
    if tokens > max_model_len:
        raise InputError(
            field,
            found=f"{tokens} tokens",
            accepted=f"at most max_model_len = {max_model_len}",
            next_step="Shorten it, or raise max_model_len: nothing is cut silently.",
        )


def _check_tokens(field: str, token_ids: Iterable[int], vocab_size: int) -> None:
    for token in token_ids:
        if not 0 <= token < vocab_size:
            raise InputError(
                field, found=token, accepted=f"0 to {vocab_size - 1}", next_step="Tokenize for this model."
            )


def check_draw(logits: Sequence[float], *, samples: int, seed: int) -> npt.NDArray[np.float64]:
    """The row [V] that the sampler alone is asked to draw from.

    Raises:
        InputError: no logits, or none that is finite; no sample; a negative seed.
    """
    row = np.array(logits, dtype=np.float64)
    if row.ndim != 1 or not row.size or not np.isfinite(row.max()) or samples < 1 or seed < 0:
        raise InputError(
            "draw",
            found=f"{row.size} logits, {samples} samples, seed {seed}",
            accepted="finite logits, 1 or more samples, a seed of 0 or more",
            next_step="Correct the call.",
        )
    return row
