"""Requests as vLLM's own, gated on what vLLM has made of them after its defaulting and validation."""

from __future__ import annotations

from vllm import SamplingParams
from vllm.inputs.engine import tokens_input
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine import EngineCoreRequest

from samebits.engine.protocol import Request
from samebits.engine.requests import effective_sampling
from samebits.engine.vllm.final import flat
from samebits.engine.vllm.live import REFUSALS, Live
from samebits.errors import GateError, InputError
from samebits.gate import request as gate


def engine_request(live: Live, request: Request) -> EngineCoreRequest:
    """``request`` ready for the engine core, certified once more in its final form.

    What the protocol names and this version's ``SamplingParams`` does not is off, as the gate has seen; it cannot be
    passed on.

    Raises:
        GateError: the final parameters do not conform, or are not what was asked.
        InputError: vLLM refuses the request.
    """
    names = SamplingParams.__struct_fields__
    asked = {name: value for name, value in effective_sampling(request).items() if name in names}
    asked |= {"logprobs": 0, "prompt_logprobs": None, "detokenize": False, "output_kind": RequestOutputKind.DELTA}
    made = _process(live, request.request_id, request.prompt_token_ids, SamplingParams(**asked))
    check(live, made, asked)
    return made


def score_request(live: Live, request_id: str, token_ids: list[int]) -> EngineCoreRequest:
    """One forward over ``token_ids`` whose prompt logprobs are wanted; the token that it must draw is dropped."""
    sampling = SamplingParams(
        temperature=1.0,
        seed=0,
        max_tokens=1,
        prompt_logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    return _process(live, request_id, token_ids, sampling)


def check(live: Live, made: EngineCoreRequest, asked: dict[str, object]) -> None:
    """That what the core will sample with conforms, and says of each parameter asked for what was asked.

    Raises:
        GateError: the first parameter that does not.
    """
    final = made.sampling_params
    watermark = getattr(live.config, "watermark_config", None) is not None
    request_id = made.external_req_id or made.request_id
    gate.check(flat(final, has_watermark=watermark), request_id=request_id)
    for name, value in asked.items():
        found = getattr(final, name)
        if not _same(name, found, value):
            raise GateError(
                f"request {request_id!r}: {name}",
                found=f"{found!r} after vLLM's own defaults",
                accepted=f"{value!r}, as asked",
                next_step="Remove what changes it: a generation config, a plugin.",
            )


def _same(name: str, found: object, asked: object) -> bool:
    """Several spellings of one thing: vLLM turns None into an empty list, −1 into 0, and sorts nothing."""
    if name == "stop_token_ids":
        return sorted(set(found or ())) == sorted(set(asked or ()))  # type: ignore[call-overload]  # lists of ids
    return found == asked or all(value in (None, 0, -1, [], {}, ()) for value in (found, asked))


def _process(live: Live, request_id: str, token_ids: list[int], sampling: SamplingParams) -> EngineCoreRequest:
    try:
        return live.engine.input_processor.process_inputs(
            request_id,
            tokens_input(list(token_ids)),
            sampling,
            supported_tasks=live.engine.get_supported_tasks(),
            arrival_time=0.0,
        )
    except REFUSALS as error:
        raise InputError(
            f"request {request_id!r}",
            found=" ".join(str(error).split())[:300],
            accepted="a request that vLLM accepts",
            next_step="Correct the request.",
        ) from error
