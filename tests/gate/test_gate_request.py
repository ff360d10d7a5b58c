from __future__ import annotations

import math

import pytest

from samebits.errors import GateError
from samebits.gate.request import REQUIRED, RULES, SMOKE_RULES, check, conflicts
from samebits.recipe import CONFORMING

GOOD = {**CONFORMING, "seed": 7}


def test_what_a_recipe_sends_conforms():
    check(GOOD, request_id="a")


def test_required_parameters_alone_conform():
    check({name: GOOD[name] for name in REQUIRED}, request_id="a")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 1),
        ("top_p", 1),
        ("top_k", -1),
        ("top_k", None),
        ("min_p", None),
        ("min_p", 0),
        ("presence_penalty", -0.0),
        ("logit_bias", {}),
        ("bad_words", []),
        ("logits_processors", []),
        ("extra_args", {}),
        ("stop", []),
        ("stop", None),
        ("stop_token_ids", [2, 0]),
        ("stop_token_ids", None),
        ("seed", 0),
        ("seed", 2**63 - 1),
        ("max_tokens", 1),
        ("logprobs", 0),
        ("logprobs", None),
        ("detokenize", False),
        ("output_kind", "FINAL_ONLY"),
        ("best_of", 1),
        ("skip_reading_prefix_cache", True),
        ("thinking_token_budget", -1),
    ],
)
def test_every_spelling_of_off_passes(name, value):
    check({**GOOD, name: value}, request_id="a")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.0),
        ("temperature", 0.999),
        ("temperature", "1.0"),
        ("temperature", True),
        ("temperature", None),
        ("temperature", math.nan),
        ("temperature", math.nextafter(1.0, 2.0)),
        ("top_p", 0.95),
        ("top_p", math.nan),
        ("top_p", None),
        ("top_k", 1),
        ("top_k", "0"),
        ("top_k", False),
        ("min_p", 0.1),
        ("repetition_penalty", 1.1),
        ("repetition_penalty", 0.0),
        ("presence_penalty", 0.5),
        ("frequency_penalty", -0.5),
        ("logit_bias", {"11": 5.0}),
        ("bad_words", ["the"]),
        ("allowed_token_ids", [1]),
        ("allowed_token_ids", []),
        ("structured_outputs", {"regex": "[0-9]"}),
        ("structured_outputs", {}),
        ("guided_decoding", {"json": "{}"}),
        ("logits_processors", ["my.processor"]),
        ("extra_args", {"x": 1}),
        ("min_tokens", 4),
        ("thinking_token_budget", 10),
        ("trace_decode_token_ids", [1]),
        ("repetition_detection", {"min_count": 2}),
        ("n", 2),
        ("n", True),
        ("best_of", 2),
        ("seed", None),
        ("seed", -1),
        ("seed", 1.0),
        ("seed", "7"),
        ("seed", True),
        ("seed", 2**63),
        ("max_tokens", 0),
        ("max_tokens", None),
        ("stop", ["."]),
        ("stop", "."),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", [True]),
        ("stop_token_ids", 2),
        ("ignore_eos", True),
        ("truncate_prompt_tokens", 4),
        ("logprobs", 5),
        ("prompt_logprobs", -1),
        ("detokenize", 1),
        ("output_kind", "ALL"),
    ],
)
def test_everything_else_is_refused(name, value):
    (error,) = conflicts({**GOOD, name: value}, request_id="r-7")
    assert error.to_dict() == {
        "error": "refused",
        "field": f"request 'r-7': {name}",
        "found": repr(value),
        "accepted": RULES[name].text,
        "next_step": "Sample from the unprocessed softmax, or leave this request out of the certification.",
    }


@pytest.mark.parametrize("name", REQUIRED)
def test_a_parameter_with_a_default_elsewhere_must_be_stated(name):
    (error,) = conflicts({key: value for key, value in GOOD.items() if key != name}, request_id="a")
    assert error.field == f"request 'a': {name}"
    assert error.found == "nothing"


def test_unknown_parameter_is_refused_with_its_nearest_neighbour():
    with pytest.raises(GateError) as caught:
        check({**GOOD, "temprature": 1.0}, request_id="a")
    assert str(caught.value) == (
        "request 'a': temprature: found an unknown sampling parameter; accepted: the names of vLLM's SamplingParams. "
        "Did you mean 'temperature'?"
    )


def test_all_conflicts_are_named_at_once():
    with pytest.raises(GateError) as caught:
        check({**GOOD, "top_k": 20, "top_p": 0.8, "seed": None}, request_id="a")
    assert caught.value.field == "request 'a': top_p"
    assert caught.value.next_step.endswith("2 more conflict(s): request 'a': top_k, request 'a': seed.")


def test_texts_say_what_is_accepted():
    assert RULES["top_k"].text == "0 or -1 or unset"
    assert RULES["temperature"].text == "1.0"
    assert RULES["seed"].text == "a whole number, 0 … 9223372036854775807"
    assert RULES["structured_outputs"].text == "unset"


def test_smoke_lets_greedy_in_and_nothing_else():
    check({**GOOD, "temperature": 0.0}, request_id="a", rules=SMOKE_RULES)
    check(GOOD, request_id="a", rules=SMOKE_RULES)
    assert {name for name in RULES if RULES[name] != SMOKE_RULES[name]} == {"temperature"}
    (error,) = conflicts({**GOOD, "temperature": 0.5}, request_id="a", rules=SMOKE_RULES)
    assert error.accepted == "1.0 or 0.0"
