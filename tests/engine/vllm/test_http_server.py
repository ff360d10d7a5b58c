"""The gate in the real ``vllm serve``: every case of the table, in one start of the server."""

from __future__ import annotations

import json
import socket

import pytest

from http_cases import (
    BODIES,
    CHAT,
    COMPLETIONS,
    CONFORMING,
    CONFORMING_DEFAULTS,
    GUARDED,
    HEADERS,
    OMITTED,
    PASSES,
    REFUSES,
    ROUTES_PASSED,
    ROUTES_REFUSED,
    TOKENS,
)

pytestmark = pytest.mark.vllm

JSON = {"content-type": "application/json"}
GOOD = json.dumps(CONFORMING[COMPLETIONS]).encode()
CHUNKED = {**JSON, "transfer-encoding": "chunked"}
STREAMED = [case for case in REFUSES if case.route != TOKENS and not {"n", "seed"}.isdisjoint(case.changes)]


def generated(answer):
    """Tokens that an answer says it generated."""
    usage = answer["usage"]
    return usage.get("completion_tokens", usage.get("output_tokens"))


def refusal(status, answer):
    """The field and what was found, of a refusal by the gate."""
    assert status == 400
    assert answer.keys() == {"error"}
    error = answer["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("BadRequestError", 400)
    assert "; accepted: " in error["message"]
    field, _, said = error["message"].partition(": found ")
    assert field == error["param"]
    return field, said.partition("; accepted: ")[0]


@pytest.mark.parametrize("case", PASSES, ids=lambda case: case.id)
def test_conforming_requests_pass_and_generate(server, case):
    status, answer = server.post(case.route, case.body)
    assert status == case.status, answer
    if status == 400:
        assert "; accepted: " not in answer["error"]["message"]
    elif isinstance(answer, str):
        events = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith("data: ")]
        assert len(events) >= 3
        assert case.route == "/v1/responses" or events[-1] == "[DONE]"
    else:
        assert generated(answer) in {1, 2, 3}


@pytest.mark.parametrize("case", CONFORMING_DEFAULTS, ids=lambda case: case.id)
def test_what_is_left_out_passes_where_the_default_of_vllm_conforms(server, case):
    status, answer = server.post(case.route, case.body)
    assert status == 200, answer
    assert generated(answer) in {1, 2, 3}


@pytest.mark.parametrize("case", [*REFUSES, *OMITTED], ids=lambda case: case.id)
def test_others_are_refused(server, case):
    assert refusal(*server.post(case.route, case.body)) == (case.param, case.found)


@pytest.mark.parametrize("case", GUARDED, ids=lambda case: case.id)
def test_what_a_tool_parser_adds_is_refused_at_the_engine(server, case):
    status, answer = server.post(case.route, case.body)
    assert (status, answer["error"]["param"]) == (400, "structured_outputs")
    assert answer["error"]["message"].startswith("structured_outputs: found StructuredOutputsParams(")
    assert answer["error"]["message"].endswith("(parameter=structured_outputs)")


@pytest.mark.parametrize("case", STREAMED, ids=lambda case: case.id)
def test_streams_are_refused_before_they_begin(server, case):
    body = {**case.body, "stream": True}
    assert refusal(*server.post(case.route, body)) == (case.param, case.found)


@pytest.mark.parametrize(("content", "found"), [case[1:] for case in BODIES], ids=[case[0] for case in BODIES])
def test_bodies_that_two_readers_might_read_differently(server, content, found):
    param, said = refusal(*server.post(COMPLETIONS, content))
    assert param == "body"
    assert said == found or (found is None and said.startswith("not JSON ("))


@pytest.mark.parametrize(("headers", "param", "found"), HEADERS)
def test_headers_that_are_refused(server, headers, param, found):
    assert refusal(*server.post(COMPLETIONS, GOOD, headers)) == (param, found)


@pytest.mark.parametrize(("method", "path"), ROUTES_REFUSED)
def test_routes_that_are_refused(server, method, path):
    status, answer = server.ask(method, path, GOOD, JSON)
    assert status == 400
    assert answer == b"" if method == "HEAD" else json.loads(answer)["error"]["param"] == "route"


@pytest.mark.parametrize(("method", "path"), ROUTES_PASSED)
def test_routes_that_pass(server, method, path):
    """Whatever the server says to a request without a body, it is not the gate that says it."""
    _, answer = server.ask(method, path)
    assert b"; accepted: " not in answer


def test_a_query_is_refused(server):
    assert refusal(*server.post(f"{COMPLETIONS}?n=2", GOOD)) == ("query", "'n=2'")


def test_a_body_in_chunks_passes(server):
    parts = [GOOD[start : start + 10] for start in range(0, len(GOOD), 10)]
    status, answer = server.ask(
        "POST", COMPLETIONS, iter(parts), {**JSON, "transfer-encoding": "chunked"}, chunked=True
    )
    assert status == 200
    assert generated(json.loads(answer)) in {1, 2, 3}


def test_ten_megabytes_that_conform_pass(server):
    status, answer = server.post(COMPLETIONS, {**CONFORMING[COMPLETIONS], "user": "x" * 10_000_000})
    assert status == 200, answer
    assert generated(answer) in {1, 2, 3}


def test_ten_megabytes_that_do_not_are_refused(server):
    body = {**CONFORMING[COMPLETIONS], "prompt": [5] * 3_000_000, "temperature": 0.5}
    assert refusal(*server.post(COMPLETIONS, body)) == ("temperature", "0.5")


def test_a_hundred_megabytes_are_refused_by_their_size(server):
    assert refusal(*server.post(COMPLETIONS, b" " * 100_000_000)) == ("body", "100000000 bytes")


def test_a_hundred_megabytes_in_chunks_are_refused_too(server):
    status, answer = server.ask("POST", COMPLETIONS, iter([b" " * 1_000_000] * 100), CHUNKED, chunked=True)
    assert refusal(status, json.loads(answer)) == ("body", "100000000 bytes")


@pytest.mark.parametrize("sent", [0, 10])
def test_a_client_that_goes_away_harms_nobody(server, sent):
    head = f"POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(GOOD)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + GOOD[:sent])
    assert server.post(COMPLETIONS, GOOD)[0] == 200


def test_a_websocket_is_refused(server):
    head = (
        "GET /v1/realtime HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        "sec-websocket-version: 13\r\nsec-websocket-key: c2FtZWJpdHMgc2FtZWJpdA==\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(head.encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_the_request_id_of_a_header_reaches_the_server(server):
    _, answer = server.post(COMPLETIONS, GOOD, {"x-request-id": "mine"})
    assert answer["id"] == "cmpl-mine"


def test_equal_seeds_give_equal_tokens_and_others_do_not(server):
    def tokens(seed):
        sampling = {**CONFORMING[TOKENS]["sampling_params"], "seed": seed, "max_tokens": 16}
        _, answer = server.post(TOKENS, {**CONFORMING[TOKENS], "sampling_params": sampling})
        return answer["choices"][0]["token_ids"]

    assert tokens(1) == tokens(1)
    assert tokens(1) != tokens(2)


def test_the_official_client_reads_a_refusal(server):
    """Shape alone: what ``openai`` makes its BadRequestError of is the body's ``error`` and the status."""
    status, answer = server.post(CHAT, {**CONFORMING[CHAT], "n": 2})
    assert refusal(status, answer) == ("n", "2")
    assert answer["error"]["message"] == (
        "n: found 2; accepted: 1. Sample from the unprocessed softmax, one answer a request, or send this request"
        " elsewhere."
    )
