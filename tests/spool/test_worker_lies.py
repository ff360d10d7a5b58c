"""Replies that are wrong, and messages that are too large."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from samebits.errors import InputError, SamebitsError, WorkerError
from samebits.spool import Worker
from samebits.spool import worker as worker_module

Start = Callable[..., Worker]
Tell = Callable[[int], bool]
CLASSES = ["SamebitsError", "InputError", "GateError", "RowError", "InvalidCertificate", "MachineError", "WorkerError"]


def fields(error: SamebitsError) -> tuple[str, str, str, str]:
    return error.field, error.found, error.accepted, error.next_step


@pytest.mark.parametrize(
    ("text", "field", "found"),
    [
        ("", "", "truncated JSON (0 bytes)"),
        ('{"protocol":1,"id":1,"resu', "", "truncated JSON (26 bytes)"),
        ("no", "", "not JSON: Expecting value: line 1 column 1 (char 0) (2 bytes)"),
        ('{"protocol":1,"id":NaN}', "", "not JSON: NaN is not JSON (23 bytes)"),
        ("[]", ": protocol", "null"),
        ('{"protocol":2}', ": protocol", "2"),
        ('{"protocol":1,"id":1,"result":{}}', ": Reply.failure", "nothing"),
        ('{"protocol":1,"id":1,"result":[],"failure":null}', ": Reply.result", "list []"),
        ('{"protocol":1,"id":9,"result":{},"failure":null}', ": id", "9"),
        ('{"protocol":1,"id":1,"result":{},"failure":null,"more":1}', ": Reply.more", "an unknown field"),
    ],
)
def test_a_reply_that_is_wrong_ends_the_worker(
    start: Start, text: str, field: str, found: str, is_running: Tell
) -> None:
    worker = start()
    with pytest.raises(WorkerError) as caught:
        worker.call("forge", {"number": 1, "text": text})
    assert (caught.value.field, caught.value.found) == (f"worker tester: replies/000001.json{field}", found)
    assert not is_running(worker.pid)


def test_a_reply_with_neither_result_nor_failure_ends_the_worker(start: Start, is_running: Tell) -> None:
    worker = start()
    with pytest.raises(WorkerError) as caught:
        worker.call("forge", {"number": 1, "text": '{"protocol":1,"id":1,"result":null,"failure":null}'})
    assert caught.value.found == "a reply with both or neither of result and failure"
    assert not is_running(worker.pid)


def test_a_failure_of_an_unknown_kind_is_a_worker_error(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_GRACE", 0.2)
    failure = '{"kind":"os","field":"f","found":"trouble","accepted":"a","next_step":"n"}'
    text = f'{{"protocol":1,"id":1,"result":null,"failure":{failure}}}'
    worker = start()
    with pytest.raises(WorkerError) as caught:
        worker.call("forge", {"number": 1, "text": text})
    assert caught.value.found == "'forge' raised trouble"
    worker.stop()


def test_a_call_above_the_limit_is_refused_and_the_worker_stays(start: Start) -> None:
    worker = start(limit=100)
    with pytest.raises(InputError) as caught:
        worker.call("echo", {"text": "x" * 100})
    assert fields(caught.value) == (
        "the call of 'echo'",
        "158 bytes",
        "at most 100 bytes in one message",
        "Send fewer sequences in one call, or raise the limit on both sides.",
    )
    assert worker.call("echo", {}) == {}


def test_a_reply_above_the_workers_limit_comes_back_as_an_error(start: Start, tmp_path: Path, program: Path) -> None:
    spool = tmp_path / "spool-small"
    worker = start(spool=spool, command=[sys.executable, str(program), str(spool), "100"])
    with pytest.raises(InputError) as caught:
        worker.call("give", {"size": 100})
    assert fields(caught.value)[:3] == ("Reply 1", "157 bytes", "at most 100 bytes in one message")
    assert worker.call("deaf", {}) == {}


def test_a_reply_above_the_parents_limit_ends_the_worker(start: Start) -> None:
    worker = start(limit=95)
    with pytest.raises(WorkerError) as caught:
        worker.call("give", {"size": 100})
    assert (caught.value.found, caught.value.accepted) == ("a reply of 157 bytes", "at most 95 bytes in one message")
