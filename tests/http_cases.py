"""Requests that the gate over HTTP must let through or refuse: one table, for the gate alone and for the real server.

Every case changes one conforming request of its route; :data:`GONE` takes a field away.  A refusal is the field and
what was found.  Cases marked *served* need the server's own defaults or parser, so the gate alone does not refuse them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GONE = object()

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

COMPLETIONS, CHAT, RESPONSES, TOKENS = (
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/responses",
    "/inference/v1/generate",
)

CONFORMING: dict[str, dict[str, Any]] = {
    COMPLETIONS: {**STATED, "model": "tiny", "prompt": "hello", "max_tokens": 3},
    CHAT: {**STATED, "model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3},
    RESPONSES: {**STATED, "model": "tiny", "input": "hi", "max_output_tokens": 3},
    TOKENS: {"model": "tiny", "token_ids": [5, 6, 7], "sampling_params": {**STATED, "max_tokens": 3}},
}

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
STRICT_TOOL = {**TOOL, "function": {**TOOL["function"], "strict": True}}
RESPONSES_TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False}


@dataclass(frozen=True)
class Case:
    """One request: ``route`` with ``changes``; refused for ``param`` because of ``found``, or let through."""

    route: str
    changes: dict[str, Any]
    param: str | None = None
    found: str | None = None
    served: bool = False
    """Only the real server's parser and defaults show it."""
    status: int = 200
    """What the real server answers, once the gate lets the request through."""

    @property
    def id(self) -> str:
        said = ",".join(f"{name}={'GONE' if value is GONE else value!r:.40}" for name, value in self.changes.items())
        return f"{self.route.removeprefix('/v1/').split('/')[0]}-{said}"

    @property
    def body(self) -> dict[str, Any]:
        base = CONFORMING[self.route]
        if self.route == TOKENS:
            outer = {**base, **self.changes.get("outer", {})}
            inner = {**base["sampling_params"], **{k: v for k, v in self.changes.items() if k != "outer"}}
            return without({**outer, "sampling_params": without(inner)})
        return without({**base, **self.changes})


def without(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not GONE}


def passes(route: str, *, status: int = 200, served: bool = False, **changes: Any) -> Case:
    return Case(route, changes, status=status, served=served)


def refuses(route: str, found: str, *, param: str | None = None, served: bool = False, **changes: Any) -> Case:
    return Case(route, changes, param or next(iter(changes)), found, served=served)


PASSES = [
    *(passes(route) for route in CONFORMING),
    *(passes(route, stream=True) for route in (COMPLETIONS, CHAT, RESPONSES)),
    passes(TOKENS, outer={"stream": True}),
    # Every spelling of "off".
    passes(COMPLETIONS, top_k=-1),
    passes(COMPLETIONS, temperature=1),
    passes(COMPLETIONS, top_p=1),
    passes(COMPLETIONS, min_p=0),
    passes(COMPLETIONS, presence_penalty=-0.0),
    passes(COMPLETIONS, logit_bias={}),
    passes(COMPLETIONS, logit_bias=None),
    passes(COMPLETIONS, bad_words=[]),
    passes(COMPLETIONS, stop=[]),
    passes(COMPLETIONS, stop=None),
    passes(COMPLETIONS, stop_token_ids=[3, 2]),
    passes(COMPLETIONS, n=1, best_of=1),
    passes(COMPLETIONS, min_tokens=0),
    passes(COMPLETIONS, allowed_token_ids=None),
    passes(COMPLETIONS, structured_outputs=None, response_format={"type": "text"}),
    passes(COMPLETIONS, vllm_xargs={}),
    passes(COMPLETIONS, vllm_xargs=None, kv_transfer_params=None, ec_transfer_params=None),
    passes(COMPLETIONS, use_beam_search=False, echo=False, suffix=None, length_penalty=1.0),
    passes(COMPLETIONS, thinking_token_budget=-1),
    passes(COMPLETIONS, watermarking=False),
    # One prompt, in each spelling.
    passes(COMPLETIONS, prompt=["hello"]),
    passes(COMPLETIONS, prompt=[5, 6, 7]),
    passes(COMPLETIONS, prompt=[[5, 6, 7]]),
    # What does not reach the sampler.
    passes(COMPLETIONS, logprobs=1, prompt_logprobs=0),
    passes(COMPLETIONS, logprobs=0, return_token_ids=True, return_tokens_as_token_ids=True),
    passes(COMPLETIONS, stream=True, stream_options={"include_usage": True}),
    passes(COMPLETIONS, user="me", request_id="mine", session_id="s", cache_salt="salt", priority=0),
    passes(COMPLETIONS, skip_special_tokens=False, spaces_between_special_tokens=False, add_special_tokens=False),
    passes(COMPLETIONS, model=GONE),
    passes(COMPLETIONS, seed=0),
    passes(COMPLETIONS, seed=2**63 - 1),
    passes(CHAT, logprobs=True, top_logprobs=1),
    passes(CHAT, max_tokens=GONE, max_completion_tokens=3),
    passes(CHAT, add_generation_prompt=False, continue_final_message=True),
    passes(CHAT, tools=[TOOL], tool_choice="none"),
    passes(CHAT, tools=[TOOL], tool_choice="auto"),
    passes(RESPONSES, tools=[RESPONSES_TOOL]),
    passes(CHAT, chat_template_kwargs={"a": 1}, documents=None, reasoning_effort="low"),
    passes(CHAT, response_format={"type": "text"}),
    passes(RESPONSES, store=False, metadata={}, instructions="be brief", text={"format": {"type": "text"}}),
    passes(TOKENS, detokenize=False, outer={"output_mode": "tokens"}),
    # Let through by the gate, and refused by the server for its own reasons.
    passes(COMPLETIONS, prompt=[5, 9999], status=400),
]

OMITTED = [
    # The model folder's generation_config.json: temperature 0.6, top_p 0.95, top_k 20.
    Case(route, {name: value}, name, f"{found}, the server's default", served=True)
    for route in (COMPLETIONS, CHAT, RESPONSES)
    for name, found in (("temperature", "0.6"), ("top_p", "0.95"), ("top_k", "20"))
    for value in (GONE, None)
]
"""Left out or null, the server's own defaults count; the gate alone refuses these too, as nothing was stated."""

CONFORMING_DEFAULTS = [
    passes(route, served=True, **{name: GONE})
    for route in (COMPLETIONS, CHAT, RESPONSES)
    for name in ("min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
]
"""Left out, vLLM's defaults conform: the server is let answer, though the gate alone would want them stated."""

REFUSES = [
    *(refuses(route, "nothing", seed=GONE) for route in (COMPLETIONS, CHAT, RESPONSES, TOKENS)),
    refuses(COMPLETIONS, "nothing", seed=None),
    refuses(COMPLETIONS, "-1", seed=-1),  # vLLM's other word for "no seed"
    refuses(COMPLETIONS, "9223372036854775808", seed=2**63),
    # What shapes the distribution.
    *(refuses(route, "0.7", temperature=0.7) for route in CONFORMING),
    *(refuses(route, "0.9", top_p=0.9) for route in CONFORMING),
    *(refuses(route, "5", top_k=5) for route in CONFORMING),
    *(refuses(route, "0.1", min_p=0.1) for route in CONFORMING),
    *(refuses(route, "0.5", presence_penalty=0.5) for route in CONFORMING),
    *(refuses(route, "-0.5", frequency_penalty=-0.5) for route in CONFORMING),
    *(refuses(route, "1.1", repetition_penalty=1.1) for route in CONFORMING),
    *(refuses(route, "{'5': 1.0}", logit_bias={"5": 1.0}) for route in CONFORMING),
    refuses(COMPLETIONS, "0", temperature=0),
    refuses(COMPLETIONS, "[5]", allowed_token_ids=[5]),
    refuses(COMPLETIONS, "[]", allowed_token_ids=[]),
    refuses(COMPLETIONS, "['the']", bad_words=["the"]),
    refuses(COMPLETIONS, "2", min_tokens=2),
    refuses(TOKENS, "2", min_tokens=2),
    refuses(COMPLETIONS, "['a']", stop=["a"]),
    refuses(COMPLETIONS, "'a'", stop="a"),
    refuses(COMPLETIONS, "True", ignore_eos=True),
    refuses(COMPLETIONS, "2", n=2),
    refuses(CHAT, "2", n=2),
    refuses(TOKENS, "2", n=2),
    refuses(COMPLETIONS, "2", best_of=2),
    refuses(COMPLETIONS, "True", watermarking=True),
    refuses(COMPLETIONS, "10", thinking_token_budget=10),
    refuses(
        COMPLETIONS,
        "{'max_pattern_size': 2, 'min_count': 2}",
        repetition_detection={"max_pattern_size": 2, "min_count": 2},
    ),
    refuses(TOKENS, "[1, 2]", trace_decode_token_ids=[1, 2]),
    refuses(TOKENS, "an unknown sampling parameter", _all_stop_token_ids=[1]),
    refuses(TOKENS, "{'x': 1}", extra_args={"x": 1}),
    # Constraints, under each of their names.
    refuses(COMPLETIONS, "{'regex': '[0-9]'}", structured_outputs={"regex": "[0-9]"}),
    refuses(RESPONSES, "{'regex': '[0-9]'}", structured_outputs={"regex": "[0-9]"}),
    refuses(TOKENS, "{'regex': '[0-9]'}", structured_outputs={"regex": "[0-9]"}),
    refuses(COMPLETIONS, "{'type': 'json_object'}", response_format={"type": "json_object"}),
    refuses(CHAT, "{'type': 'json_object'}", response_format={"type": "json_object"}),
    refuses(RESPONSES, "{'format': {'type': 'json_object'}}", text={"format": {"type": "json_object"}}),
    refuses(RESPONSES, "{'format': None, 'grammar': 'a'}", text={"format": None, "grammar": "a"}),
    *(
        refuses(COMPLETIONS, "an unknown field", **{name: value})
        for name, value in (
            ("guided_json", {}),
            ("guided_regex", "a"),
            ("guided_choice", ["a"]),
            ("guided_grammar", "a"),
            ("guided_decoding_backend", "xgrammar"),
        )
    ),
    refuses(CHAT, "'required'", tool_choice="required", tools=[TOOL]),
    refuses(
        CHAT,
        "{'type': 'function', 'function': {'name': 'f'}}",
        tool_choice={"type": "function", "function": {"name": "f"}},
        tools=[TOOL],
    ),
    refuses(RESPONSES, "'required'", tool_choice="required", tools=[RESPONSES_TOOL]),
    refuses(RESPONSES, "[{'type': 'web_search_preview'}]", tools=[{"type": "web_search_preview"}]),
    # Ways past the sampler.
    refuses(COMPLETIONS, "{'a': 1}", vllm_xargs={"a": 1}),
    refuses(COMPLETIONS, "an unknown field", extra_args={"a": 1}),
    refuses(COMPLETIONS, "an unknown field", logits_processors=["m.P"]),
    refuses(COMPLETIONS, "{'do_remote_prefill': True}", kv_transfer_params={"do_remote_prefill": True}),
    refuses(TOKENS, "{'a': 1}", param="kv_transfer_params", outer={"kv_transfer_params": {"a": 1}}),
    refuses(COMPLETIONS, "True", use_beam_search=True),
    refuses(COMPLETIONS, "0.5", length_penalty=0.5),
    refuses(COMPLETIONS, "3", priority=3),
    # Prompts.
    refuses(COMPLETIONS, "['a', 'b']", prompt=["a", "b"]),
    refuses(COMPLETIONS, "[[5, 6], [7]]", prompt=[[5, 6], [7]]),
    refuses(COMPLETIONS, "['hello', [5]]", prompt=["hello", [5]]),
    refuses(COMPLETIONS, "[]", prompt=[]),
    refuses(COMPLETIONS, "[[]]", prompt=[[]]),
    refuses(COMPLETIONS, "[5, True]", prompt=[5, True]),
    refuses(COMPLETIONS, "[-1]", prompt=[-1]),
    refuses(COMPLETIONS, "'AAAA'", prompt_embeds="AAAA"),
    refuses(COMPLETIONS, "True", echo=True),
    refuses(COMPLETIONS, "'end'", suffix="end"),
    refuses(COMPLETIONS, "4", truncate_prompt_tokens=4),
    refuses(CHAT, "{'size': 4}", mm_processor_kwargs={"size": 4}),
    refuses(CHAT, "[]", messages=[]),
    refuses(RESPONSES, "True", background=True),
    refuses(RESPONSES, "'auto'", truncation="auto"),
    refuses(TOKENS, "[True]", param="token_ids", outer={"token_ids": [True]}),
    refuses(TOKENS, "[{'type': 'image_url'}]", param="content_parts", outer={"content_parts": [{"type": "image_url"}]}),
    # More than the sampled token's logprob.
    refuses(COMPLETIONS, "5", logprobs=5),
    refuses(COMPLETIONS, "5", prompt_logprobs=5),
    refuses(COMPLETIONS, "[1]", logprob_token_ids=[1], logprobs=1),
    refuses(CHAT, "5", top_logprobs=5, logprobs=True),
    # The right value in the wrong type: vLLM would coerce it.
    refuses(COMPLETIONS, "'1.0'", temperature="1.0"),
    refuses(COMPLETIONS, "True", temperature=True),
    refuses(COMPLETIONS, "'7'", seed="7"),
    refuses(COMPLETIONS, "True", seed=True),
    refuses(COMPLETIONS, "7.0", seed=7.0),
    refuses(COMPLETIONS, "False", top_k=False),
    refuses(COMPLETIONS, "'0'", top_k="0"),
    refuses(COMPLETIONS, "True", n=True),
    refuses(COMPLETIONS, "'1'", n="1"),
    refuses(COMPLETIONS, "1", stream=1),
    refuses(COMPLETIONS, "'false'", stream="false"),
    refuses(COMPLETIONS, "1.0", max_tokens=1.0),
    refuses(COMPLETIONS, "0", max_tokens=0),
    refuses(CHAT, "'4'", max_completion_tokens="4"),
    # Fields that nobody knows.
    refuses(COMPLETIONS, "an unknown field", temprature=1.0),
    refuses(CHAT, "an unknown field", store=True),
    refuses(TOKENS, "an unknown sampling parameter", temprature=1.0),
    refuses(TOKENS, "an unknown field", param="unknown", outer={"unknown": 1}),
    # Other models.
    refuses(COMPLETIONS, "'my-lora'", model="my-lora", served=True),
    refuses(CHAT, "'my-lora'", model="my-lora", served=True),
    refuses(RESPONSES, "[1, 2]", logit_bias=[1, 2]),
]

GUARDED = [
    Case(CHAT, {"tools": [STRICT_TOOL], "tool_choice": "auto"}),
    Case(CHAT, {"tools": [STRICT_TOOL], "tool_choice": "auto", "stream": True}),
    Case(RESPONSES, {"tools": [{**RESPONSES_TOOL, "strict": True}]}),
]
"""Conforming as they are written and as vLLM parses them; its tool parser adds a constraint afterwards."""

BODIES = [
    ("empty", b"", "an empty body"),
    (
        "not JSON",
        b"{temperature: 1}",
        "not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))",
    ),
    ("a list", b"[]", "JSON, but list"),
    ("null", b"null", "JSON, but NoneType"),
    ("two values", b"{} {}", "not JSON (Extra data: line 1 column 4 (char 3))"),
    ("NaN", b'{"temperature": NaN}', "the number NaN"),
    ("Infinity", b'{"temperature": -Infinity}', "the number -Infinity"),
    ("overflow", b'{"temperature": 1e999}', "the number 1e999, which is infinite as a double"),
    ("duplicate key", b'{"temperature": 1.0, "temperature": 0.5}', "the key 'temperature' twice in one object"),
    ("escaped duplicate", b'{"n": 1, "\\u006e": 2}', "the key 'n' twice in one object"),
    ("nested duplicate", b'{"sampling_params": {"n": 1, "n": 2}}', "the key 'n' twice in one object"),
    ("nested bomb", b'{"messages": ' + b"[" * 100_000, "nesting deeper than 64"),
    ("UTF-16", '{"n": 1}'.encode("utf-16"), "bytes that are not UTF-8 (at 0)"),
    (
        "byte order mark",
        b'\xef\xbb\xbf{"n": 1}',
        "not JSON (Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0))",
    ),
    ("a number of 5,000 digits", b'{"seed": ' + b"9" * 5000 + b"}", None),
]
"""Bodies that are refused as a whole: a name, the bytes, what was found (None: Python's own words differ)."""

HEADERS = [
    ({"content-type": "text/plain"}, "content-type", "'text/plain'"),
    ({"content-type": "application/x-www-form-urlencoded"}, "content-type", "'application/x-www-form-urlencoded'"),
    ({"content-type": "application/json; charset=utf-16"}, "content-type", "'application/json; charset=utf-16'"),
    ({"content-type": "application/vnd.x+json"}, "content-type", "'application/vnd.x+json'"),
    ({"content-type": ""}, "content-type", "''"),
    ({"content-encoding": "gzip"}, "content-encoding", "gzip"),
    ({"x-data-parallel-rank": "0"}, "x-data-parallel-rank", "'0'"),
    ({"x-vllm-priority": "5"}, "x-vllm-priority", "'5'"),
]
"""Headers that are refused on a conforming request, with the field and what was found."""

ROUTES_REFUSED = [
    ("POST", "/v1/messages"),
    ("POST", "/v1/chat/completions/batch"),
    ("POST", "/generative_scoring"),
    ("POST", "/v1/systemone"),
    ("POST", "/invocations"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/v1/audio/translations"),
    ("POST", "/pooling"),
    ("POST", "/v1/embeddings"),
    ("POST", "/score"),
    ("POST", "/classify"),
    ("POST", "/rerank"),
    ("POST", "/v1/load_lora_adapter"),
    ("POST", "/v1/unload_lora_adapter"),
    ("POST", "/adapters"),
    ("DELETE", "/adapters/x"),
    ("POST", "/collective_rpc"),
    ("POST", "/update_weights"),
    ("POST", "/start_weight_update"),
    ("POST", "/init_weight_transfer_engine"),
    ("POST", "/pause"),
    ("POST", "/resume"),
    ("POST", "/sleep"),
    ("POST", "/wake_up"),
    ("POST", "/reset_prefix_cache"),
    ("POST", "/abort_requests"),
    ("POST", "/inference/v1/abort_requests"),
    ("POST", "/scale_elastic_ep"),
    ("POST", "/v1/responses/resp_1/cancel"),
    ("GET", "/v1/responses/resp_1/input_items"),
    ("POST", "/v1/nobody-knows"),
    ("GET", "/"),
    # A known path in another spelling, or with another method.
    ("POST", "/v1/completions/"),
    ("POST", "//v1/completions"),
    ("POST", "/v1//completions"),
    ("POST", "/V1/completions"),
    ("POST", "/v1/./completions"),
    ("POST", "/v1/%63ompletions"),
    ("POST", "/v1%2Fcompletions"),
    ("POST", "/v1/completions%20"),
    ("GET", "/v1/completions"),
    ("PUT", "/v1/completions"),
    ("HEAD", "/v1/completions"),
    ("post", "/v1/completions"),
    ("POST", "/health"),
    ("POST", "/v1/models"),
]

ROUTES_PASSED = [
    ("GET", "/health"),
    ("HEAD", "/health"),
    ("GET", "/ping"),
    ("POST", "/ping"),
    ("GET", "/version"),
    ("GET", "/load"),
    ("GET", "/metrics"),
    ("GET", "/v1/models"),
    ("OPTIONS", "/v1/completions"),
    ("OPTIONS", "/v1/models"),
    ("GET", "/openapi.json"),
    ("GET", "/docs"),
    ("GET", "/is_paused"),
    ("GET", "/v1/responses/resp_1"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/v1/completions/render"),
]
