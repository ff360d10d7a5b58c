"""``samebits adapt`` from the outside: exit codes, JSON, and words that teach."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from samebits.cli import main


def run(*arguments: str | Path, python: tuple[str, ...] = ("-m", "samebits")) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *python, "adapt", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "COLUMNS": "200"},
    )


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """The same command in this process: exit code and JSON."""

    def command(*arguments: str | Path) -> tuple[int, Any]:
        monkeypatch.setattr(sys, "argv", ["samebits", "adapt", *map(str, arguments), "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return ended.value.code, json.loads(capsys.readouterr().out)

    return command


@pytest.fixture
def config(tmp_path: Path, nemo_rl_config: dict[str, Any]) -> Path:
    path = tmp_path / "grpo.yaml"
    path.write_text(yaml.safe_dump(nemo_rl_config))
    return path


@pytest.fixture
def composed(tmp_path: Path, verl_config: dict[str, Any]) -> Path:
    path = tmp_path / "composed.yaml"
    path.write_text(yaml.safe_dump(verl_config))
    return path


def test_help_teaches() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    assert "--json" in shown.stdout
    assert "++policy.generation.vllm_cfg.batch_invariant=true" in shown.stdout


def test_an_accepted_configuration(config: Path, row_file: Path) -> None:
    ended = run("nemo-rl", config, "--row", row_file)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert "VLLM_BATCH_INVARIANT         1" in [line.rstrip() for line in lines]
    assert "seed                        of its own" in [line.rstrip() for line in lines]
    assert lines[-1] == "NeMo RL on row toy-vllm: accepted"


def test_an_accepted_configuration_in_json(
    inside: Callable[..., tuple[int, Any]], composed: Path, row_file: Path
) -> None:
    code, said = inside("verl", composed, "--row", row_file)
    assert code == 0
    assert set(said) == {
        "accepted", "framework", "row", "settings", "origins", "arguments", "environment", "sampling", "guard",
        "validation_guard", "notes",
    }  # fmt: skip
    assert (said["accepted"], said["framework"], said["row"]) == (True, "verl", "toy-vllm")
    assert said["validation_guard"]["temperature"] == "0"
    assert said["guard"]["temperature"] == "1.0"


def test_a_refused_configuration(config: Path, row_file: Path) -> None:
    ended = run("nemo-rl", config, "policy.generation.top_p=0.9", "--row", row_file)
    assert (ended.returncode, ended.stderr) == (2, "")
    assert [line.rstrip() for line in ended.stdout.splitlines()] == [
        "command line",
        "  policy.generation.top_p",
        "    found     0.9",
        "    accepted  1.0",
        "    next      Sample from the unprocessed softmax: the comparison is of raw logprobs.",
        "",
        "NeMo RL on row toy-vllm: refused, 1 conflict",
    ]


def test_a_refused_configuration_in_json(inside: Callable[..., tuple[int, Any]], config: Path, row_file: Path) -> None:
    overrides = ("policy.generation.top_p=0.9", "++policy.generation.beams=4")
    code, said = inside("nemo-rl", config, *overrides, "--row", row_file)
    assert code == 2
    assert said == {
        "accepted": False,
        "framework": "NeMo RL",
        "row": "toy-vllm",
        "conflicts": [
            {
                "error": "refused",
                "field": "command line: policy.generation.beams",
                "found": "an unknown field, 4",
                "accepted": "fields whose meaning the kit knows",
                "next_step": "Remove it.",
            },
            {
                "error": "refused",
                "field": "command line: policy.generation.top_p",
                "found": "0.9",
                "accepted": "1.0",
                "next_step": "Sample from the unprocessed softmax: the comparison is of raw logprobs.",
            },
        ],
    }


def test_bad_input_is_explained(inside: Callable[..., tuple[int, Any]], config: Path) -> None:
    code, said = inside("nemo-rl", config, "--row", "cpu")
    assert (code, said["accepted"]) == (2, "a row whose engine is vLLM")
    code, said = inside("verl", config.with_name("nothing.yaml"))
    assert (code, said["found"]) == (2, "No such file or directory")


def test_without_omegaconf_the_other_commands_work_and_this_one_says_what_it_needs(config: Path) -> None:
    without = ("-c", "import sys; sys.modules['omegaconf'] = None; from samebits.cli import main; main()")
    ended = run("nemo-rl", config, "--json", python=without)
    assert ended.returncode == 3
    said = json.loads(ended.stdout)
    assert (said["error"], said["field"], said["found"]) == ("machine", "omegaconf", "not installed")
    assert said["next_step"] == "Install it: pip install 'samebits[adapt]', or pip install omegaconf"
