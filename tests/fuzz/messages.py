"""Targets that are messages: the spool's, and requests, alone and over HTTP."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from fuzz.mutate import cut, json_text, mutated, mutated_json
from fuzz.target import FalsePass, Target
from http_cases import CONFORMING as HTTP_CONFORMING
from samebits.engine.protocol import Generated, Request, Trajectory
from samebits.errors import GateError, WorkerError
from samebits.gate import request
from samebits.gate.http import DIALECTS, Gate
from samebits.observed import Decision, Event, Observed
from samebits.oracle.sampling import STATED, nonconforming
from samebits.recipe import CONFORMING
from samebits.spool import from_message, to_message
from samebits.spool.message import Call, Failure, Note, Reply, decode, encode, error_of

LIMIT: Final = 1 << 20


class Spool(Target):
    """A file of the spool and what is in it: what is accepted is written back as it was."""

    name, share = "spool", 18

    def __init__(self) -> None:
        self._genuine = [json.loads(encode(message, limit=LIMIT)) for message in _messages()]

    def make(self, random: Random) -> bytes:
        value = random.choice(self._genuine)
        way = random.randrange(4)
        if way == 0:
            return cut(random, json_text(value))
        return mutated(random, json_text(value)) if way == 1 else json_text(mutated_json(random, value))

    def read(self, data: bytes) -> None:
        refusals = []
        for cls in (Call, Reply, Note):
            try:
                message: Any = decode(cls, data, number=7, source="000007.json")
            except WorkerError as error:
                refusals.append(error)
                continue
            _same(to_message(message), data)
            if isinstance(message, Reply):
                _read_reply(message)
            if isinstance(message, Call):
                _same_fields(from_message(Request, message.params), message.params)
        if len(refusals) == 3:
            raise refusals[0]


class Sampling(Target):
    """A request's sampling parameters: what the gate lets through, the oracle accepts too."""

    name, share = "request", 8

    def make(self, random: Random) -> bytes:
        return json_text(_request(random, {**CONFORMING, "seed": 7, "max_tokens": 16}))

    def read(self, data: bytes) -> None:
        sampling = _loaded(data)
        if sampling is None:
            return
        found = request.conflicts(sampling, request_id="7")
        if found:
            raise found[0]
        faults = nonconforming(json.dumps(sampling))
        if faults:
            raise FalsePass(f"the gate let through what the oracle does not: {'; '.join(faults)}")


class Http(Target):
    """The gate over HTTP: whatever it lets through states sampling parameters that the oracle accepts."""

    name, share = "http", 6

    def make(self, random: Random) -> bytes:
        route = random.choice(sorted(HTTP_CONFORMING))
        body = HTTP_CONFORMING[route]
        way = random.randrange(4)
        if way == 0:
            return route.encode() + b"\n" + mutated(random, json_text(body))
        if way == 1 and "sampling_params" in body:
            return (
                route.encode()
                + b"\n"
                + json_text(body | {"sampling_params": _request(random, body["sampling_params"])})
            )
        return route.encode() + b"\n" + json_text(_request(random, body))

    def read(self, data: bytes) -> None:
        route, _, body = data.partition(b"\n")
        if not asyncio.run(_serve(route.decode(), body)):
            raise GateError("request", found="a refusal", accepted="a refusal", next_step="None.")
        stated = DIALECTS[route.decode()].sampling(json.loads(body))
        faults = nonconforming(json.dumps({name: value for name, value in stated.items() if name in STATED}))
        if faults:
            raise FalsePass(f"the gate let through: {'; '.join(faults)}")


def _request(random: Random, fields: Mapping[str, Any]) -> Any:
    """``fields`` changed, or with a parameter of another kind of request."""
    if random.randrange(3) == 0:
        name = random.choice(sorted(request.RULES))
        extra = random.choice((None, 0, 1, -1, 0.999, 1.0, "1", [], [1], {}, {"1": 2.0}, True, False, 10**400))
        return {**fields, name: extra}
    return mutated_json(random, dict(fields))


async def _serve(route: str, body: bytes) -> bool:
    """Whether the request gets through to the server."""
    reached = []

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        reached.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    answers: list[Any] = []

    async def send(message: Any) -> None:
        answers.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": route, "headers": headers, "query_string": b""}
    await Gate(app)(scope, receive, send)
    statuses = [answer["status"] for answer in answers if answer["type"] == "http.response.start"]
    if statuses != ([200] if reached else [400]):
        raise FalsePass(f"answered {statuses}, reached {len(reached)} times")
    if reached and reached != [body]:
        raise FalsePass("another body than the one that was judged")
    return bool(reached)


def _messages() -> list[Call | Reply | Note]:
    asked = Request(
        request_id="r7",
        prompt_token_ids=[1, 2, 3],
        max_tokens=8,
        seed=2**40,
        stop_token_ids=[0],
        sampling={**CONFORMING},
    )
    came = Trajectory(
        request_id="r7", token_ids=[5, 6], finish_reason="stop", weight_version_start=0, weight_version_end=0
    )
    observed = Observed(
        decisions=[Decision(layer=0, what="routes", rows=2, digest="ab" * 32)],
        counts=[Event(layer=0, what="router_tie", value=1)],
    )
    failure = Failure(kind="GateError", field="engine.lora", found="true", accepted="false", next_step="Remove it.")
    result = {"trajectories": [to_message(came)], "observed": to_message(observed)}
    return [
        Call(id=7, method="generate", params=to_message(asked)),
        Reply(id=7, result=result, failure=None),
        Reply(id=7, result=None, failure=failure),
        Note(id=7, count=3, fields={"step": 1, "loss": 0.5, "text": "\U0001f600 −"}),
    ]


def _read_reply(reply: Reply) -> None:
    if reply.failure is not None:
        error_of(reply.failure)
    if reply.result is not None and "trajectories" in reply.result:
        for field in dataclasses.fields(Generated):
            if field.name in reply.result:
                _read_field(field.name, reply.result[field.name])


def _read_field(name: str, value: Any) -> None:
    if name == "trajectories" and isinstance(value, list):
        for one in value:
            _same_fields(from_message(Trajectory, one), one)
    if name == "observed":
        _same_fields(from_message(Observed, value), value)


def _same(written: Any, data: bytes) -> None:
    if json.dumps(written, sort_keys=True) != json.dumps(json.loads(data), sort_keys=True):
        raise FalsePass("read as something else than stands there")


def _same_fields(message: Any, fields: Any) -> None:
    if to_message(message) != fields:
        raise FalsePass("read as something else than stands there")


def _loaded(data: bytes) -> dict[str, Any] | None:
    """As a server's own JSON reader would: the gate is given objects, whoever read them."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
