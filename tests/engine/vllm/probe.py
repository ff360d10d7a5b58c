"""Asks the installed vLLM about itself and about the gate; prints one JSON object.

``python probe.py MODEL``, by the interpreter of vLLM's environment.  Facts only: the tests hold them against what they
should be.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import random
import sys
from types import SimpleNamespace

from vllm import SamplingParams
from vllm.config import ModelConfig
from vllm.entrypoints.launchers.app import build_app
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.entrypoints.scale_out.token_in_token_out.protocol import GenerateRequest
from vllm.sampling_params import BeamSearchParams, RequestOutputKind, StructuredOutputsParams
from vllm.tasks import GENERATION_TASKS, POOLING_TASKS
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.engine.async_llm import AsyncLLM

from samebits.engine.vllm import final
from samebits.engine.vllm.http import guard, served
from samebits.errors import GateError
from samebits.gate import request
from samebits.gate.http import DIALECTS, judgement

STATED = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "seed": 7,
}
TOKENS = {"type": "token", "prompt_token_ids": [5, 6]}


def pairs(errors):
    return [[error.field, error.found] for error in errors]


def routes():
    """Every route of a server with every router: tasks, development mode, scale-out, LoRA, fault tolerance."""
    options = ["--enable-fault-tolerance", "--enable-tokenizer-info-endpoint", "--enable-scale-out"]
    args = make_arg_parser(FlexibleArgumentParser()).parse_args(options)
    app = build_app(args, (*GENERATION_TASKS, *POOLING_TASKS, "render"))
    return sorted(
        f"{method} {route.path}"
        for route in app.routes
        for method in getattr(route, "methods", None) or [type(route).__name__.removeprefix("API")]
    )


def requests():
    classes = {
        "completions": CompletionRequest,
        "chat completions": ChatCompletionRequest,
        "responses": ResponsesRequest,
        "tokens in, tokens out": GenerateRequest,
    }
    return {name: sorted(cls.model_fields) for name, cls in classes.items()}


def offline():
    """The final parameters of requests, as vLLM makes them offline."""
    cases = {
        "conforming": SamplingParams(**STATED),
        "defaults": SamplingParams(),
        "greedy": SamplingParams(**{**STATED, "temperature": 0.0}),
        "top_k -1": SamplingParams(**{**STATED, "top_k": -1}),
        "seed -1": SamplingParams(**{**STATED, "seed": -1}),
        "stop": SamplingParams(**STATED, stop="a"),
        "structured": SamplingParams(**STATED, structured_outputs=StructuredOutputsParams(regex="[0-9]")),
        "logit_bias": SamplingParams(**STATED, logit_bias={3: 1.0}),
        "beam": BeamSearchParams(beam_width=2, max_tokens=3),
        "streaming": SamplingParams(**STATED, output_kind=RequestOutputKind.DELTA),
        "n": SamplingParams(**STATED, n=2),
        "prompt_logprobs": SamplingParams(**STATED, prompt_logprobs=1),
    }
    found = {name: pairs(final.conflicts(params, has_watermark=False)) for name, params in cases.items()}
    found["watermark"] = pairs(final.conflicts(SamplingParams(**STATED), has_watermark=True))
    found["watermark off"] = pairs(final.conflicts(SamplingParams(**STATED, watermarking=False), has_watermark=True))
    return found


class Client:
    """The engine client of a server, as far as the guard touches it."""

    vllm_config = SimpleNamespace(watermark_config=None)

    async def generate(self, _prompt, _params, request_id, **_arguments):
        yield request_id


def guarded():
    """What the guard answers to calls of ``generate``: an output, or the error and the status that the server sends."""
    client = Client()
    guard.install(client)
    first = client.generate
    guard.install(client)
    good = SamplingParams(**STATED)
    calls = {
        "conforming": (TOKENS, good, {}),
        "as the server calls": (
            TOKENS,
            good,
            {"lora_request": None, "trace_headers": None, "priority": 0, "data_parallel_rank": None, "session_id": "s"},
        ),
        "temperature": (TOKENS, SamplingParams(**{**STATED, "temperature": 0.5}), {}),
        "constraint added by a parser": (
            TOKENS,
            SamplingParams(**STATED, structured_outputs=StructuredOutputsParams(json_object=True)),
            {},
        ),
        "beam search": (TOKENS, BeamSearchParams(beam_width=2, max_tokens=3), {}),
        "LoRA": (TOKENS, good, {"lora_request": "adapter"}),
        "priority": (TOKENS, good, {"priority": 1}),
        "rank": (TOKENS, good, {"data_parallel_rank": 0}),
        "an argument of tomorrow": (TOKENS, good, {"surprise": 1}),
        "embeddings": ({"type": "embeds"}, good, {}),
        "text": ("hello", good, {}),
    }
    found = {"installed once": client.generate is first}
    for name, (prompt, params, arguments) in calls.items():
        try:
            stream = client.generate(prompt, params, "id", **arguments)
            found[name] = asyncio.run(anext(stream))
        except Exception as error:  # noqa: BLE001 - the error is what is asked for
            found[name] = [type(error).__name__, error.parameter, str(error)]
    return found


def scope(model, generation_config):
    """A server around ``model`` that nobody started, with vLLM's own defaults for it."""
    config = ModelConfig(model=model, generation_config=generation_config, max_model_len=512)
    serving = SimpleNamespace(default_sampling_params=config.get_diff_sampling_param(), model_config=config)
    handlers = [handler for handler, _ in served._HANDLERS.values()]
    state = SimpleNamespace(
        engine_client=Client(),
        openai_serving_models=SimpleNamespace(base_model_paths=[SimpleNamespace(name="tiny")]),
        **dict.fromkeys(handlers, serving),
    )
    return {"app": SimpleNamespace(state=state)}


def defaults(model):
    """A request that states its seed only, under each setting of --generation-config."""
    bodies = {
        "/v1/completions": {"prompt": "a", "seed": 1},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "seed": 1},
        "/v1/responses": {"input": "a", "seed": 1},
        "/inference/v1/generate": {"token_ids": [5], "sampling_params": {"seed": 1}},
    }
    found = {}
    for setting in ("auto", "vllm"):
        one = scope(model, setting)
        for route, body in bodies.items():
            errors = judgement.conflicts(DIALECTS[route], body, scope=one, effective=served.effective)
            found[f"{setting} {route}"] = pairs(errors)
    return found


VALUES = [None, True, False, -1, 0, 1, 2, 0.0, 0.5, 1.0, 2.0, "", "1", "0.5", "a", [], [1], ["a"], {}, {"1": 1.0}, -0.0]


def differing(model, rounds):
    """Random bodies on which the gate alone and the gate behind vLLM's parser disagree in the wrong direction."""
    chance = random.Random(0)  # noqa: S311 - the same bodies every time
    one, wrong, agreed = scope(model, "vllm"), [], 0
    base = {
        "/v1/completions": {"prompt": "a", **STATED},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], **STATED},
        "/v1/responses": {"input": "a", **STATED},
    }
    for _ in range(rounds):
        route = chance.choice(list(base))
        dialect = DIALECTS[route]
        changes = {name: chance.choice(VALUES) for name in chance.sample(sorted(dialect.fields), chance.randint(1, 3))}
        body = {**base[route], **changes}
        alone = judgement.conflicts(dialect, dict(body), scope={})
        try:
            found = served.effective(one, dialect, dict(body))
        except GateError:
            continue  # vLLM would not take it
        conforms = not request.conflicts(found, request_id=None)
        if not alone and not conforms:
            wrong.append(repr(body))
        agreed += not alone and conforms
    return {"wrong": wrong, "passed by both": agreed, "rounds": rounds}


def keywords(function):
    return sorted(name for name, one in inspect.signature(function).parameters.items() if one.kind is one.KEYWORD_ONLY)


def main(model):
    facts = {
        "loaded": sorted(name for name in sys.modules if name.startswith("samebits.engine.vllm.")),
        "sampling_params": sorted(SamplingParams.__struct_fields__),
        "private": sorted(final.PRIVATE),
        "requests": requests(),
        "routes": routes(),
        "generate": keywords(AsyncLLM.generate),
        "guard_arguments": sorted(guard.ARGUMENTS),
        "offline": offline(),
        "guard": guarded(),
        "defaults": defaults(model),
        "differing": differing(model, 5000),
    }
    sys.stdout.write(f"\n{json.dumps(facts)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
