"""A refusal on record, from the real engine to the verdict of ``verify``; and engines that are not really there."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from samebits import pins, recipe
from samebits.certify import folder, refusal
from samebits.certify.order import Order
from samebits.environment import worker_environment
from samebits.errors import MachineError

from .cli import samebits

MESSAGE = (
    "refusal.raised: refused: the engine itself raised: vllm, first forward: TypeError: 'function' object is not "
    "subscriptable (vllm/model_executor/determinism/batch_invariant.py:"
)


@pytest.mark.vllm
def test_the_real_engine_s_refusal_is_signed_and_verifies_as_refused(tmp_path: Path, home: Path) -> None:
    row, _ = pins.load("cpu-vllm-0.32")
    named = os.environ.get("SAMEBITS_VLLM_PYTHON")
    python = Path(named) if named else pins.stack.find(row)
    if python is None:
        pytest.skip("SAMEBITS_VLLM_PYTHON names no interpreter of an environment with vLLM")
    ran = samebits(
        "certify", "refused-batch-invariant-cpu", "--stack", python, "--runs", tmp_path, "--run-id", "r", "--json",
        home=home,
    )  # fmt: skip
    assert ran.code == 2, ran.stdout + ran.stderr
    (run,) = ran.json["runs"]
    assert run["findings"]["verdict"] == "refused"
    assert run["findings"]["reasons"][0].startswith(MESSAGE)
    key = home / "config" / "samebits" / "keys" / "default.pub.pem"
    verified = samebits("verify", run["certificate"], "--key", key, "--json", home=home)
    assert verified.code == 1
    assert (verified.json["verdict"], verified.json["valid"]) == ("refused", True)
    loaded = json.loads(Path(run["statement"]).read_text())["predicate"]["configuration"]
    assert any(one["name"].startswith("loaded/vllm/") for one in loaded)
    assert {one["name"] for one in loaded} >= {"model/config.json", "torch"}


class Instead:
    """Starts another program in the engine's place."""

    def __init__(self, code: str) -> None:
        self._code = code

    def command(self, module: str, *arguments: str) -> list[str]:
        assert module == "samebits.engine.vllm.unsupported"
        return [sys.executable, "-c", self._code, *arguments]

    def environment(self, threads: int) -> dict[str, str]:
        return worker_environment(threads)


class Quiet:
    def line(self, text: str) -> None:
        del text

    def live(self, text: str) -> None:
        del text


NOT_THERE = {
    "a process that dies": ("raise SystemExit(3)", "exit status 3"),
    "a process that says nothing": ("", "exit status 0"),
    "words that are no result": ("print('well')", "no result in its last line"),
    "a module that is missing": (
        'print(\'{"error": "ModuleNotFoundError", "message": "No module named vllm", "place": "x:1 in y"}\')',
        "ModuleNotFoundError: No module named vllm (x:1 in y)",
    ),
}


@pytest.mark.parametrize("what", NOT_THERE)
def test_where_the_engine_was_not_there_nothing_is_recorded(what: str, tmp_path: Path) -> None:
    code, found = NOT_THERE[what]
    loaded, content = recipe.load("refused-batch-invariant-cpu")
    row, row_file = pins.load("cpu-vllm-0.32")
    order = Order(recipe=loaded, recipe_file=content, row=row, row_file=row_file, launcher=Instead(code))
    manifest = folder.Manifest(
        run_id="r", recipe=loaded.id, recipe_sha256="", row=row.id, row_sha256="", kit_sha256="", started_on=""
    )
    with folder.create(tmp_path / "run", manifest) as run:
        with pytest.raises(MachineError) as caught:
            refusal.record(order, run, Quiet())
        assert (caught.value.field, caught.value.found) == ("engine", found)
        assert not list(run.parts.iterdir())
        assert not run.manifest.phases
