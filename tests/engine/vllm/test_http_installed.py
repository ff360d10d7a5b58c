"""What the installed vLLM says of itself, held against what the gate knows; the gate's two ends on its own objects."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from samebits.errors import GateError
from samebits.gate.http import DIALECTS
from samebits.gate.http.routes import classify, known_refusal
from samebits.gate.request import RULES

pytestmark = pytest.mark.vllm

HERE = Path(__file__).parent
NAMES = json.loads((HERE.parents[1] / "vectors" / "vllm" / "0.32.0.json").read_text())
EVERY_ROUTER = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_ENABLE_COHERE_API": "1"}
DEFAULTS = [["temperature", "0.6"], ["top_p", "0.95"], ["top_k", "20"]]


@pytest.fixture(scope="module")
def facts(vllm_python, vllm_environment, tiny_model):
    finished = subprocess.run(
        [vllm_python, HERE / "probe.py", tiny_model],
        env={**vllm_environment, **EVERY_ROUTER},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    return json.loads(finished.stdout.splitlines()[-1])


def test_the_gate_loads_none_of_the_adapter(facts):
    room = "samebits.engine.vllm"
    assert facts["loaded"] == [f"{room}.final", f"{room}.http", f"{room}.http.guard", f"{room}.http.served"]


def test_every_sampling_parameter_has_a_rule(facts):
    assert set(facts["sampling_params"]) - set(RULES) == set(facts["private"])


def test_the_names_that_were_written_down_are_those_installed(facts):
    assert facts["sampling_params"] == NAMES["sampling_params"]
    assert facts["generate"] == NAMES["generate"]
    for name, fields in facts["requests"].items():
        assert fields == [field for field in NAMES["requests"][name] if not field.startswith("_")]


def test_every_route_of_the_assembled_server_is_known(facts):
    assert {"POST /adapters", "GET /redoc", "WebSocketRoute /v1/realtime", "POST /update_weights"} <= set(
        facts["routes"]
    )
    for route in facts["routes"]:
        method, _, template = route.partition(" ")
        path = template.replace("{response_id}", "resp_1").replace("{adapter_name}", "a")
        scope = {"type": "http", "method": method.replace("Mount", "GET"), "path": path}
        if known_refusal(path) is None:
            assert classify(scope) is DIALECTS.get(path)
        else:
            with pytest.raises(GateError):
                classify(scope)


def test_the_guard_knows_every_argument_of_the_engine(facts):
    assert facts["guard_arguments"] == facts["generate"]


@pytest.mark.parametrize(
    ("case", "found"),
    [
        ("conforming", []),
        ("defaults", [["seed", "None"]]),
        ("greedy", [["temperature", "0.0"]]),
        ("top_k -1", []),
        ("seed -1", [["seed", "None"]]),
        ("stop", [["stop", "['a']"]]),
        ("logit_bias", [["logit_bias", "{3: 1.0}"]]),
        ("beam", [["sampling_params", "BeamSearchParams"]]),
        ("streaming", []),
        ("n", [["n", "2"]]),
        ("prompt_logprobs", []),
        ("watermark", [["watermarking", "None"]]),
        ("watermark off", []),
    ],
)
def test_parameters_made_offline(facts, case, found):
    assert facts["offline"][case] == found


def test_a_constraint_made_offline(facts):
    ((field, found),) = facts["offline"]["structured"]
    assert field == "structured_outputs"
    assert found.startswith("StructuredOutputsParams(json=None, regex='[0-9]', ")


def test_the_guard_stands_once(facts):
    assert facts["guard"]["installed once"] is True


@pytest.mark.parametrize("case", ["conforming", "as the server calls"])
def test_the_guard_lets_conforming_calls_through(facts, case):
    assert facts["guard"][case] == "id"


GUARD = {
    "temperature": "temperature: found 0.5; accepted: 1.0. Sample from the unprocessed softmax, or leave this request"
    " out of the certification.",
    "beam search": "sampling_params: found BeamSearchParams; accepted: SamplingParams. Sample; a beam search or a"
    " pooling request is not certified.",
    "LoRA": "lora_request: found 'adapter'; accepted: unset. Leave out of the request what sets it.",
    "priority": "priority: found 1; accepted: 0. Leave out of the request what sets it.",
    "rank": "data_parallel_rank: found 0; accepted: unset. Leave out of the request what sets it.",
    "an argument of tomorrow": "surprise: found an unknown argument of the engine; accepted: the arguments that the"
    " gate knows. Leave out of the request what sets it.",
    "embeddings": "prompt: found embeds; accepted: token ids. Send text or token ids: the actor receives nothing else.",
    "text": "prompt: found str; accepted: token ids. Send text or token ids: the actor receives nothing else.",
}


@pytest.mark.parametrize("case", GUARD)
def test_the_guard_refuses_in_the_words_of_vllm(facts, case):
    """Its validation error, which the server answers with 400; vLLM appends the parameter to the message."""
    field = GUARD[case].partition(":")[0]
    assert facts["guard"][case] == ["VLLMValidationError", field, f"{GUARD[case]} (parameter={field})"]


def test_the_guard_sees_what_a_parser_added(facts):
    assert facts["guard"]["constraint added by a parser"][1] == "structured_outputs"


@pytest.mark.parametrize("route", ["/v1/completions", "/v1/chat/completions", "/v1/responses"])
def test_defaults_of_the_model_count_unless_vllm_is_told_to_use_its_own(facts, route):
    assert facts["defaults"][f"auto {route}"] == [[name, f"{value}, the server's default"] for name, value in DEFAULTS]
    assert facts["defaults"][f"vllm {route}"] == []


def test_the_route_for_tokens_takes_no_defaults_of_the_model(facts):
    assert facts["defaults"]["auto /inference/v1/generate"] == []


def test_what_the_gate_alone_passes_conforms_for_vllm_too(facts):
    """5,000 random bodies; the other direction differs on purpose, the gate alone is stricter."""
    assert facts["differing"]["wrong"] == []
    assert facts["differing"]["passed by both"] > 100
