"""The gate over HTTP on arbitrary bodies, chunks and paths."""

from __future__ import annotations

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from http_cases import COMPLETIONS, CONFORMING
from samebits.errors import GateError
from samebits.gate.http import DIALECTS, Gate, strict_json
from samebits.gate.http.judgement import conflicts
from samebits.gate.http.routes import HARMLESS

JSON = [(b"content-type", b"application/json")]
GOOD = json.dumps(CONFORMING[COMPLETIONS]).encode()

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
anything = st.binary(max_size=60) | st.dictionaries(st.text(max_size=9), values, max_size=4).map(
    lambda value: json.dumps(value).encode()
)


def reached(scope, parts):
    """The body with which the server behind the gate was called, or None."""
    seen = []
    pending = [
        {"type": "http.request", "body": part, "more_body": index < len(parts) - 1} for index, part in enumerate(parts)
    ]

    async def server(_scope, receive, _send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        seen.append(body)

    async def receive():
        return pending.pop(0)

    async def send(_message):
        pass

    asyncio.run(Gate(server)({"type": "http", "query_string": b"", "headers": JSON, **scope}, receive, send))
    return seen[0] if seen else None


@given(anything)
def test_a_body_is_refused_or_read_as_python_reads_it(content):
    try:
        value = strict_json.loads(content)
    except GateError:
        return
    assert value == json.loads(content)
    assert json.loads(json.dumps(value, allow_nan=False)) == value


@given(st.lists(st.integers(0, len(GOOD)), max_size=6).map(sorted))
def test_chunks_make_no_difference(cuts):
    ends = [*cuts, len(GOOD)]
    parts = [GOOD[start:end] for start, end in zip([0, *cuts], ends, strict=True)]
    assert reached({"method": "POST", "path": COMPLETIONS}, parts) == GOOD


paths = st.text(max_size=12) | st.builds(str.__add__, st.sampled_from(sorted(DIALECTS)), st.text(max_size=2))


@given(paths.map(lambda path: f"/{path.lstrip('/')}"), st.sampled_from(["GET", "POST", "HEAD", "OPTIONS", "PUT"]))
def test_only_known_paths_reach_the_server(path, method):
    if reached({"method": method, "path": path}, [GOOD]) is not None:
        assert path in HARMLESS or (path in DIALECTS and method in {"POST", "OPTIONS"})


@given(st.sampled_from(sorted(set(DIALECTS[COMPLETIONS].fields) - {"prompt"})), values)
def test_one_changed_field_is_refused_for_itself_or_means_the_same(name, value):
    errors = conflicts(DIALECTS[COMPLETIONS], {**CONFORMING[COMPLETIONS], name: value}, scope={})
    assert {error.field for error in errors} <= {name}
    for error in errors:
        assert json.loads(json.dumps(error.to_dict())) == error.to_dict()
