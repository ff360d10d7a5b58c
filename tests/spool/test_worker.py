"""A worker that answers: results, progress, errors that its handlers raise."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samebits import errors
from samebits.errors import SamebitsError, WorkerError
from samebits.spool import Worker

Start = Callable[..., Worker]
Tell = Callable[[int], bool]
CLASSES = ["SamebitsError", "InputError", "GateError", "RowError", "InvalidCertificate", "MachineError", "WorkerError"]


def fields(error: SamebitsError) -> tuple[str, str, str, str]:
    return error.field, error.found, error.accepted, error.next_step


def test_calls_are_answered_in_order(start: Start, tmp_path: Path) -> None:
    with start() as worker:
        for number in range(1000):
            assert worker.call("echo", {"number": number}) == {"number": number}
        assert worker.stop() == 0
    spool = tmp_path / "spool-1"
    expected = [f"{number:06}.json" for number in range(1, 1002)]  # and the shutdown
    assert sorted(path.name for path in (spool / "requests").iterdir()) == expected
    assert sorted(path.name for path in (spool / "replies").iterdir()) == expected


def test_every_json_value_survives(start: Start) -> None:
    value = {"text": "−0 \U0001f600\x00", "list": [1, [2**63, -1.5, True, None]], "mapping": {"": {}}}
    assert start().call("echo", value) == value


def test_a_dataclass_or_nothing_may_be_returned(start: Start) -> None:
    worker = start()
    assert worker.call("sealed", {}) == {"commitment": "00", "tokens": 3, "seconds": 0.5}
    assert worker.call("deaf", {}) == {}


def test_the_last_progress_always_arrives(start: Start) -> None:
    worker = start()
    seen: list[Any] = []
    worker.call("count", {"steps": 1000}, on_progress=seen.append)
    assert seen[-1] == {"step": 999}
    assert [note["step"] for note in seen] == sorted({note["step"] for note in seen})
    worker.call("echo", {}, on_progress=seen.append)
    assert seen[-1] == {"step": 999}


def test_progress_arrives_during_the_call(start: Start) -> None:
    seen: list[Any] = []
    start().call("count", {"steps": 4, "pause": 0.25}, on_progress=seen.append)
    assert len(seen) > 1


def test_the_worker_gets_exactly_the_environment(start: Start) -> None:
    environment = {"ONLY": "this", "PATH": "/usr/bin:/bin"}
    received = start(environment=environment).call("environment", {})
    received.pop("LC_CTYPE", None)  # Python's own, PEP 538
    assert received == environment


def test_calls_from_two_threads_take_turns(start: Start) -> None:
    worker = start()
    wrong: list[Any] = []

    def calls(letter: str) -> None:
        wrong.extend(n for n in range(100) if worker.call("echo", {letter: n}) != {letter: n})

    threads = [threading.Thread(target=calls, args=(letter,)) for letter in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert worker.call("echo", {"last": True}) == {"last": True}


def test_a_worker_outlives_the_thread_that_started_it(start: Start) -> None:
    workers: list[Worker] = []
    thread = threading.Thread(target=lambda: workers.append(start()))
    thread.start()
    thread.join()
    assert workers[0].call("echo", {"still": "here"}) == {"still": "here"}


def test_workers_can_start_together(start: Start) -> None:
    first, second = start(wait=False), start(wait=False)
    assert second.call("echo", {"n": 2}) == {"n": 2}
    assert first.call("echo", {"n": 1}) == {"n": 1}


@pytest.mark.parametrize("name", CLASSES)
def test_an_error_travels_as_itself(start: Start, name: str) -> None:
    worker = start()
    with pytest.raises(SamebitsError) as caught:
        worker.call("refuse", {"class": name})
    assert type(caught.value) is getattr(errors, name)
    assert fields(caught.value) == ("a field", "1", "2 or 3", "Write 2.")
    assert caught.value.__notes__ == ["raised by 'refuse' in worker tester"]
    assert worker.call("echo", {"alive": True}) == {"alive": True}


def test_every_error_class_is_tested() -> None:
    assert {c for c, v in vars(errors).items() if isinstance(v, type) and issubclass(v, SamebitsError)} == set(CLASSES)


def test_an_unknown_subclass_travels_as_its_nearest_class(start: Start) -> None:
    with pytest.raises(SamebitsError) as caught:
        start().call("refuse", {"class": "Tailored"})
    assert type(caught.value) is errors.GateError


def test_any_other_exception_becomes_a_worker_error(start: Start, tmp_path: Path, program: Path) -> None:
    worker = start()
    with pytest.raises(WorkerError) as caught:
        worker.call("stumble", {})
    line = next(i for i, text in enumerate(program.read_text().splitlines(), 1) if "raise ValueError" in text)
    assert fields(caught.value) == (
        "worker tester",
        f"'stumble' raised ValueError: two\nlines (program.py:{line} in stumble: raise ValueError(\"two\\nlines\"))",
        "a reply",
        f"Read the whole traceback in {tmp_path / 'tester.log'}.",
    )
    assert "Traceback (most recent call last):" in (tmp_path / "tester.log").read_text()
    assert worker.call("echo", {"alive": True}) == {"alive": True}


def test_an_unknown_method_names_the_known_ones(start: Start) -> None:
    with pytest.raises(WorkerError) as caught:
        start().call("ecko", {})
    assert fields(caught.value) == (
        "method",
        "'ecko'",
        (
            "child, count, crash, deaf, descendants, echo, environment, forge, give, hang, kill, leave, pid, refuse, "
            "sealed, shutdown, stumble"
        ),
        "Did you mean 'echo'?",
    )


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("list", "TypeError: the handler of 'give' returned a list, not a mapping or a dataclass"),
        ("nan", "nan"),
        ("set", "set {2}"),
    ],
)
def test_a_result_that_is_not_json_is_an_error(start: Start, what: str, found: str) -> None:
    worker = start()
    with pytest.raises(WorkerError) as caught:
        worker.call("give", {"what": what})
    assert found in caught.value.found
    assert worker.call("echo", {"alive": True}) == {"alive": True}


def test_a_lone_surrogate_is_no_reply(start: Start) -> None:
    """Half of a character: no two readers agree on it."""
    with pytest.raises(WorkerError) as caught:
        start().call("give", {"what": "surrogate"})
    assert caught.value.field == "worker tester: replies/000001.json"
    assert caught.value.found == "not JSON: a lone surrogate (63 bytes)"
