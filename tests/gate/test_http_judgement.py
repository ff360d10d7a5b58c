"""The table of requests, judged by the gate alone: every parameter must be stated."""

from __future__ import annotations

import json

import pytest

from http_cases import BODIES, CONFORMING_DEFAULTS, OMITTED, PASSES, REFUSES
from samebits.errors import GateError
from samebits.gate.http import DIALECTS, strict_json
from samebits.gate.http.judgement import conflicts


def judge(case):
    body = strict_json.loads(json.dumps(case.body).encode())
    return [(error.field, error.found) for error in conflicts(DIALECTS[case.route], body, scope={})]


@pytest.mark.parametrize("case", PASSES, ids=lambda case: case.id)
def test_conforming_requests_pass(case):
    assert judge(case) == []


@pytest.mark.parametrize("case", [case for case in REFUSES if not case.served], ids=lambda case: case.id)
def test_others_are_refused_for_one_thing(case):
    assert judge(case) == [(case.param, case.found)]


@pytest.mark.parametrize("case", [*OMITTED, *CONFORMING_DEFAULTS], ids=lambda case: case.id)
def test_what_is_left_out_is_refused_where_nobody_knows_the_default(case):
    assert judge(case) == [(next(iter(case.changes)), "nothing")]


@pytest.mark.parametrize(("content", "found"), [case[1:] for case in BODIES], ids=[case[0] for case in BODIES])
def test_bodies_that_two_readers_might_read_differently(content, found):
    with pytest.raises(GateError) as raised:
        strict_json.loads(content)
    assert raised.value.field == "body"
    assert raised.value.found == found if found is not None else raised.value.found.startswith("not JSON (")


def test_nesting_up_to_the_limit_passes():
    deep = b'{"a": ' + b"[" * 63 + b"]" * 63 + b"}"
    assert strict_json.loads(deep)["a"] != []
    with pytest.raises(GateError, match="nesting deeper than 64"):
        strict_json.loads(b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}")


def test_many_side_by_side_are_not_deep():
    assert len(strict_json.loads(b'{"a": [' + b"{}," * 999 + b"{}]}")["a"]) == 1000


def test_brackets_inside_strings_do_not_nest():
    assert strict_json.loads(json.dumps({"prompt": '\\"[{' * 1000}).encode()) == {"prompt": '\\"[{' * 1000}


def test_a_prompt_of_megabytes_is_quoted_by_its_beginning():
    dialect = DIALECTS["/v1/completions"]
    (error, *_) = conflicts(dialect, {"suffix": "x" * 10_000_000}, scope={})
    assert error.found == "'xxxxxxxxxxxxxxxxxxxx'… (10000000 characters)"
    (error, *_) = conflicts(dialect, {"prompt": [-1] * 1_000_000}, scope={})
    assert error.found == f"{[-1] * 20}… (1000000 items)"


def test_an_unknown_field_gets_its_nearest_neighbour():
    (error, *_) = conflicts(DIALECTS["/v1/completions"], {"temprature": 1.0}, scope={})
    assert error.next_step == "Did you mean 'temperature'?"
