"""Messages that are whole, and everything that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from samebits.errors import SamebitsError, WorkerError
from samebits.spool.folder import Folder, write
from samebits.spool.message import Call, Note, Reply, decode, encode
from samebits.spool.progress import Progress
from samebits.spool.serve import _answer

FOREIGN = "Nothing but samebits may write into a spool; start a new run."
VERSIONS = "Install the same samebits in the parent's and in the worker's environment."


def fields(error: SamebitsError) -> tuple[str, str, str, str]:
    return error.field, error.found, error.accepted, error.next_step


def test_a_call_on_disk() -> None:
    call = Call(id=3, method="refit", params={"path": "w−1", "version": 2})
    data = encode(call, limit=1000)
    assert data == b'{"protocol":1,"id":3,"method":"refit","params":{"path":"w\\u22121","version":2}}'
    assert decode(Call, data, number=3, source="requests/000003.json") == call


def test_a_note_on_disk() -> None:
    note = Note(id=3, count=7, fields={"step": 1})
    data = encode(note, limit=1000)
    assert data == b'{"protocol":1,"id":3,"count":7,"fields":{"step":1}}'
    assert decode(Note, data, number=3, source="progress/000003.json") == note


@pytest.mark.parametrize(
    ("data", "field", "found", "accepted", "next_step"),
    [
        (b"\xff", "", "not UTF-8 (1 bytes)", "one whole JSON document", FOREIGN),
        (b'{"protocol":1', "", "truncated JSON (13 bytes)", "one whole JSON document", FOREIGN),
        (b'{"a" 1}', "", "not JSON: Expecting ':' delimiter: line 1 column 6 (char 5) (7 bytes)",
         "one whole JSON document", FOREIGN),
        (b"[" * 100_000, "", "not JSON: nested too deeply (100000 bytes)", "one whole JSON document", FOREIGN),
        (b'{"protocol":"1"}', ": protocol", '"1"', "1", VERSIONS),
        (b'{"protocol":true}', ": protocol", "true", "1", VERSIONS),
        (b'{"protocol":1,"id":2,"method":"m","params":{}}', ": id", "2", "1", FOREIGN),
        (b'{"protocol":1,"id":true,"method":"m","params":{}}', ": Call.id", "bool True", "an integer", VERSIONS),
        (b'{"protocol":1,"id":1,"params":{}}', ": Call.method", "nothing", "a value", VERSIONS),
        (b'{"protocol":1,"id":1,"method":"m","params":null}', ": Call.params", "null", "a mapping", VERSIONS),
    ],
)  # fmt: skip
def test_a_wrong_message_is_refused(data: bytes, field: str, found: str, accepted: str, next_step: str) -> None:
    with pytest.raises(WorkerError) as caught:
        decode(Call, data, number=1, source="the file")
    assert fields(caught.value) == (f"the file{field}", found, accepted, next_step)


def test_a_value_that_is_not_json_is_named() -> None:
    with pytest.raises(WorkerError) as caught:
        encode(Call(id=1, method="m", params={"requests": [{"seed": b"1"}]}), limit=1000)
    assert (caught.value.field, caught.value.found) == ("Call.params.requests[0].seed", "bytes b'1'")


@pytest.mark.parametrize(
    ("data", "field"), [(b"{", "requests/000001.json"), (b'{"protocol":0}', "requests/000001.json: protocol")]
)
def test_the_worker_answers_a_wrong_call_with_an_error(tmp_path: Path, data: bytes, field: str) -> None:
    method, reply = _answer(data, 1, {}, *_sides(tmp_path))
    assert method == ""
    assert reply.failure is not None
    assert (reply.id, reply.result, reply.failure.kind, reply.failure.field) == (1, None, "WorkerError", field)


def test_progress_that_is_not_json_fails_the_call_and_nothing_else(tmp_path: Path) -> None:
    def handler(_params: Any, progress: Progress) -> None:
        progress(step=1)
        progress(step={2})

    progress, folder = _sides(tmp_path)
    call = encode(Call(id=1, method="handler", params={}), limit=1000)
    _, reply = _answer(call, 1, {"handler": handler}, progress, folder)
    assert reply.failure is not None
    assert (reply.failure.field, reply.failure.found) == ("Note.fields.step", "set {2}")
    call = encode(Call(id=2, method="shutdown", params={}), limit=1000)
    assert _answer(call, 2, {}, progress, folder) == ("shutdown", Reply(id=2, result={}, failure=None))


def test_progress_is_counted_and_throttled(tmp_path: Path) -> None:
    progress, folder = _sides(tmp_path)
    progress.begin(1)
    progress(step=0)
    first = folder.progress(1).read_bytes()
    for step in range(1, 4):
        progress(step=step)
    assert folder.progress(1).read_bytes() == first == b'{"protocol":1,"id":1,"count":2,"fields":{"step":0}}'
    progress.end()
    assert folder.progress(1).read_bytes() == b'{"protocol":1,"id":1,"count":5,"fields":{"step":3}}'
    assert (progress.count, progress.call) == (6, 0)


def _sides(tmp_path: Path) -> tuple[Progress, Folder]:
    folder = Folder(tmp_path / "spool")
    folder.claim()
    write(folder.parent, b"{}")
    return Progress(folder, 10**6), folder
