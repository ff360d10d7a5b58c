"""The middleware alone, as any ASGI server would call it."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from unittest import mock

import pytest

from http_cases import COMPLETIONS, CONFORMING, HEADERS, ROUTES_PASSED, ROUTES_REFUSED
from samebits.errors import GateError
from samebits.gate.http import Gate, request_body

JSON = {"content-type": "application/json"}
GOOD = json.dumps(CONFORMING[COMPLETIONS]).encode()


class Server:
    """The application behind the gate: notes what reaches it, and streams two chunks."""

    def __init__(self):
        self.bodies = []
        self.scopes = []
        self.after = []

    async def __call__(self, scope, receive, send):
        self.scopes.append(scope)
        if scope["type"] == "lifespan":
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.after.append(message)
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})
        self.after.append(await receive())


def scope(method="POST", path=COMPLETIONS, headers=JSON, **others):
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "root_path": "",
        **others,
    }


def call(gate, one, messages):
    """Runs one connection; gives back what was sent, and how many of ``messages`` were received."""
    pending, sent = list(messages), []

    async def receive():
        return pending.pop(0) if pending else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    asyncio.run(gate(one, receive, send))
    return sent, len(messages) - len(pending)


def chunks(*bodies):
    return [
        {"type": "http.request", "body": body, "more_body": index < len(bodies) - 1}
        for index, body in enumerate(bodies)
    ]


def refusal(sent):
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 400
    assert dict(sent[0]["headers"])[b"content-length"] == str(len(sent[1]["body"])).encode()
    return json.loads(sent[1]["body"])["error"]


def test_a_conforming_request_reaches_the_server_byte_for_byte():
    server = Server()
    body = b"  " + GOOD.replace(b",", b" ,\n")
    sent, _ = call(Gate(server), scope(), chunks(body))
    assert server.bodies == [body]
    assert sent == [
        {"type": "http.response.start", "status": 200, "headers": []},
        {"type": "http.response.body", "body": b"one", "more_body": True},
        {"type": "http.response.body", "body": b"two"},
    ]


def test_after_the_body_the_server_hears_the_client_itself():
    server = Server()
    call(Gate(server), scope(), [*chunks(GOOD), {"type": "http.disconnect"}])
    assert server.after == [{"type": "http.disconnect"}]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_body_in_chunks_is_put_together(size):
    server = Server()
    parts = [GOOD[start : start + size] for start in range(0, len(GOOD), size)]
    call(Gate(server), scope(), chunks(*parts, b""))
    assert server.bodies == [GOOD]


def test_a_refusal_says_everything_in_the_shape_of_openai():
    sent, _ = call(
        Gate(Server()), scope(), chunks(json.dumps({**CONFORMING[COMPLETIONS], "top_p": 0.9, "n": 2}).encode())
    )
    assert refusal(sent) == {
        "message": "top_p: found 0.9; accepted: 1.0. Sample from the unprocessed softmax, one answer a request, or send"
        " this request elsewhere. 1 more conflict(s): n.",
        "type": "BadRequestError",
        "param": "top_p",
        "code": 400,
    }


def test_a_refused_request_never_reaches_the_server():
    server = Server()
    call(Gate(server), scope(), chunks(b"{}"))
    assert server.scopes == []


@pytest.mark.parametrize(
    "messages", [[{"type": "http.disconnect"}], [*chunks(GOOD[:9], b"")[:1], {"type": "http.disconnect"}]]
)
def test_a_client_that_goes_away_gets_no_answer(messages):
    server = Server()
    sent, _ = call(Gate(server), scope(), messages)
    assert (sent, server.scopes) == ([], [])


@pytest.mark.parametrize(("headers", "param", "found"), HEADERS)
def test_headers_that_are_refused(headers, param, found):
    sent, _ = call(Gate(Server()), scope(headers={**JSON, **headers}), chunks(GOOD))
    error = refusal(sent)
    assert (error["param"], error["message"].startswith(f"{param}: found {found}; accepted: ")) == (param, True)


def test_two_content_types_are_refused_and_none_is():
    both = scope()
    both["headers"] *= 2
    sent, _ = call(Gate(Server()), both, chunks(GOOD))
    assert refusal(sent)["message"].startswith("content-type: found 'application/json' and 'application/json';")
    sent, _ = call(Gate(Server()), scope(headers={}), chunks(GOOD))
    assert refusal(sent)["message"].startswith("content-type: found nothing;")


@pytest.mark.parametrize(
    "value", ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"']
)
def test_json_in_utf_8_under_each_of_its_names(value):
    server = Server()
    call(
        Gate(server),
        scope(headers={"content-type": value, "x-request-id": "7", "content-encoding": "identity"}),
        chunks(GOOD),
    )
    assert server.bodies == [GOOD]


def test_a_query_is_refused():
    sent, _ = call(Gate(Server()), scope(query_string=b"temperature=0"), chunks(GOOD))
    assert refusal(sent)["message"].startswith("query: found 'temperature=0'; accepted: none.")


def test_the_limit_is_the_last_size_that_passes():
    server = Server()
    gate = Gate(server, limit=len(GOOD))
    call(gate, scope(), chunks(GOOD))
    sent, _ = call(gate, scope(), chunks(GOOD, b" "))
    assert server.bodies == [GOOD]
    assert refusal(sent)["message"] == (
        f"body: found {len(GOOD) + 1} bytes; accepted: at most {len(GOOD)} bytes. Send a shorter prompt."
    )


def test_a_body_too_large_is_read_to_its_end_so_that_the_client_sees_the_answer():
    sent, received = call(Gate(Server(), limit=10), scope(), chunks(*[b"x" * 8] * 5))
    assert (refusal(sent)["param"], received) == ("body", 5)


def test_an_announced_length_counts_before_the_bytes_have_come():
    sent, _ = call(Gate(Server(), limit=10), scope(headers={**JSON, "content-length": "11"}), chunks(b"{}"))
    assert refusal(sent)["message"].startswith("body: found 11 bytes; accepted: at most 10 bytes.")


def test_a_body_too_large_is_not_kept():
    left, chunk = 64, b" " * 2**20

    async def receive():
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": chunk, "more_body": left > 0}

    tracemalloc.start()
    with pytest.raises(GateError, match="67108864 bytes"):
        asyncio.run(request_body.read(scope(), receive, limit=2**20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20


@pytest.mark.parametrize(("method", "path"), ROUTES_REFUSED)
def test_routes_that_are_refused(method, path):
    server = Server()
    decoded = path.replace("%63", "c").replace("%2F", "/").replace("%20", " ")
    sent, received = call(Gate(server), scope(method, decoded, raw_path=path.encode()), chunks(GOOD))
    assert sent[0]["status"] == 400
    assert (server.scopes, received) == ([], 0)
    if method == "HEAD":
        assert sent[1]["body"] == b""
    else:
        error = json.loads(sent[1]["body"])["error"]
        assert error["param"] == "route"
        assert error["message"].startswith(f"route: found {method} {decoded!r}; accepted: POST /v1/completions, ")


@pytest.mark.parametrize(("method", "path"), ROUTES_PASSED)
def test_routes_that_pass_unread(method, path):
    server = Server()
    call(Gate(server), scope(method, path, headers={}), chunks(b"anything"))
    assert server.bodies == [b"anything"]


@pytest.mark.parametrize(
    ("root", "path", "passes"),
    [
        ("/api", "/api/health", True),
        ("/api", "/health", True),  # Starlette's router takes both
        ("/api", "/apihealth", False),
        ("/api", "/api", False),
        ("/health", "/health", False),
        ("/he", "/health", True),  # the root ends inside a segment, so it is none
        ("/api", "/api/pause", False),
    ],
)
def test_paths_under_a_root_path(root, path, passes):
    server = Server()
    call(Gate(server), scope("GET", path, root_path=root), chunks(b""))
    assert bool(server.scopes) is passes


def test_the_same_under_a_root_path_for_a_route_that_generates():
    server = Server()
    call(Gate(server), scope(path=f"/api{COMPLETIONS}", root_path="/api"), chunks(GOOD))
    sent, _ = call(Gate(server), scope(path=f"/api{COMPLETIONS}", root_path="/api"), chunks(b"{}"))
    assert server.bodies == [GOOD]
    assert refusal(sent)["param"] == "temperature"


def test_the_next_step_names_the_plain_spelling():
    sent, _ = call(Gate(Server()), scope(path="/v1/completions/"), [])
    assert refusal(sent)["message"].endswith(
        "Write /v1/completions, with its own method and without a slash at the end."
    )


def test_websockets_are_refused_with_an_answer_where_the_server_can_send_one():
    socket = scope(path="/v1/realtime", type="websocket", extensions={"websocket.http.response": {}})
    del socket["method"]
    sent, _ = call(Gate(Server()), socket, [{"type": "websocket.connect"}])
    assert [message["type"] for message in sent] == ["websocket.http.response.start", "websocket.http.response.body"]
    assert sent[0]["status"] == 400
    assert json.loads(sent[1]["body"])["error"]["message"].startswith("route: found WEBSOCKET '/v1/realtime';")


def test_websockets_are_closed_elsewhere():
    sent, _ = call(Gate(Server()), scope(path="/chat", type="websocket"), [{"type": "websocket.connect"}])
    assert [(message["type"], message["code"]) for message in sent] == [("websocket.close", 1008)]


def test_lifespan_passes():
    server = Server()
    call(Gate(server), {"type": "lifespan"}, [])
    assert server.scopes == [{"type": "lifespan"}]


def test_any_other_kind_of_connection_raises():
    with pytest.raises(GateError, match="scope: found 'webtransport'; accepted: http"):
        call(Gate(Server()), {"type": "webtransport"}, [])


def test_what_the_server_would_sample_with_is_judged_where_it_is_known():
    asked = []

    def effective(scope, dialect, body):
        asked.append((scope["path"], dialect.name, body))
        return final

    final = {name: value for name, value in CONFORMING[COMPLETIONS].items() if name not in {"model", "prompt"}}
    body = {"prompt": "hello", "seed": 7}
    server = Server()
    call(Gate(server, effective=effective), scope(), chunks(json.dumps(body).encode()))
    assert server.bodies == [json.dumps(body).encode()]
    assert asked == [(COMPLETIONS, "completions", body)]
    final["temperature"] = 0.6
    sent, _ = call(Gate(server, effective=effective), scope(), chunks(json.dumps(body).encode()))
    assert refusal(sent)["message"] == (
        "temperature: found 0.6, the server's default; accepted: 1.0. State it in the request, or start the server"
        " without such a default (--generation-config vllm)."
    )


def test_an_error_of_the_effective_parser_refuses():
    error = GateError("prompt", found="nothing", accepted="a prompt", next_step="Send one.")
    effective = mock.Mock(side_effect=error)
    sent, _ = call(Gate(Server(), effective=effective), scope(), chunks(GOOD))
    assert refusal(sent)["message"] == "prompt: found nothing; accepted: a prompt. Send one."
