"""vLLM's own determinism tests against a row's stack: ``python -m samebits.engine.vllm.own_tests ROW``.

Fetches the row's pinned source distribution, runs :mod:`samebits.engine.vllm.determinism` on the stack's interpreter,
prints a table and writes the observation to a file.  What the tests need beside vLLM lies in a folder of its own that
this process alone looks into: the stack stays what the row pins.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from samebits import pins, schema
from samebits.engine.vllm import sdist
from samebits.environment import StackEnvironment
from samebits.errors import InputError, MachineError, SamebitsError
from samebits.pins import Row

TOOLS: Final = "vllm-determinism.txt"
"""pytest and what vLLM's ``tests/conftest.py`` imports, hashed, beside the rows."""


def observe(row: Row, python: Path, release: Path, sha256: str) -> dict[str, Any]:
    """What vLLM's own tests showed on the stack of ``python``: :class:`.determinism.Observation`, the row and the time.

    Raises:
        InputError: the tools' requirements are missing.
        MachineError: the tools cannot be installed, or the tests ended without an observation.
    """
    launcher = StackEnvironment(python, pins.stack.link_folder())
    command = ["samebits.engine.vllm.determinism", str(release), "--sha256", sha256]
    if row.switch.name == "batch_invariant":
        command.append("--flag")
    with tempfile.TemporaryDirectory(prefix="samebits-tools-") as tools:
        _install_tools(tools)
        done = subprocess.run(
            launcher.command(*command, "--tools", tools),
            env=launcher.environment(os.cpu_count() or 1),
            check=False,
            stdout=subprocess.PIPE,
            text=True,
        )
    try:
        found = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise MachineError(
            "determinism",
            found=f"exit status {done.returncode} and no observation",
            accepted="a run that reports",
            next_step="Its words are above.",
        ) from None
    return {"row": row.id, "observed": datetime.now(UTC).isoformat(timespec="seconds"), **found}


def table(observation: Mapping[str, Any]) -> Table:
    """By test module: how many tests passed, and what the others said, most frequent first."""
    shown = Table("module", "passed", "of", "the others said", title=f"vLLM {observation['vllm']}'s determinism tests")
    for module, tests in observation["by_module"].items():
        said = Counter(
            words for name, words in observation["failures"].items() if name == module or name.startswith(f"{module}::")
        )
        words = "\n".join(f"{count} × {text[:80]}" for text, count in said.most_common())
        shown.add_row(module.rpartition(".")[2], str(tests - said.total()), str(tests), words)
    shown.add_section()
    shown.add_row("all", str(observation["passed"]), str(observation["tests"]), "a test that was skipped did not pass")
    return shown


def _install_tools(folder: str) -> None:
    requirements = next((path / TOOLS for path in schema.folders("lock") if (path / TOOLS).is_file()), None)
    if requirements is None:
        raise InputError(
            TOOLS, found="no such file", accepted="the pinned tools", next_step="Restore it from the repository."
        )
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--only-binary=:all:", "--target", folder, "--requirement", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MachineError(
            "pip install",
            found=" ".join(done.stderr.split())[-300:] or f"exit status {done.returncode}",
            accepted="an installation that succeeds",
            next_step="Mend what pip says, then run again.",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; exit code 0 if every test passed at once, 1 if one did not, else the error's."""
    parser = argparse.ArgumentParser(prog="python -m samebits.engine.vllm.own_tests", description=__doc__)
    parser.add_argument("row", nargs="?", default="cpu-vllm-0.32")
    parser.add_argument("--stack", type=Path, help="an interpreter with the row's vLLM, in place of its own stack")
    parser.add_argument("--sdist", type=Path, help="the release, fetched by hand")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the observation is written")
    options = parser.parse_args(arguments)
    console = Console()
    try:
        row, _ = pins.load(options.row)
        version, sha256 = sdist.pinned(row)
        release = options.sdist or sdist.fetch(version, sha256)
        python = options.stack or pins.stack.install(row, console.print)
        observation = observe(row, python.absolute(), release.absolute(), sha256)
    except SamebitsError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    options.runs.mkdir(parents=True, exist_ok=True)
    path = options.runs / f"determinism-{row.id}-{observation['observed'].replace(':', '').partition('+')[0]}Z.json"
    path.write_text(json.dumps(observation, indent=1) + "\n")
    console.print(table(observation))
    console.print(f"observation  {path}", soft_wrap=True)
    return 0 if observation["passed"] == observation["tests"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
