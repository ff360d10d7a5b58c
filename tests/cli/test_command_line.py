"""The command line from the outside: exit codes, errors in four parts, JSON that is nothing but JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from samebits import __version__

COMMANDS = ["adapt", "certify", "smoke", "keygen", "sign", "verify", "verify-all", "show", "doctor", "lock"]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "samebits", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command: str) -> None:
    shown = run(command, "--help")
    assert shown.returncode == 0
    assert "--json" in shown.stdout
    # More than a list of options: a paragraph that says what it is for.
    assert len(shown.stdout.split("Options")[0].split()) > 30


def test_no_command_prints_help() -> None:
    assert run().returncode == 2
    assert "certify" in run("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["certify", "dense-smolm2"],
            {
                "error": "input",
                "field": "recipe",
                "found": "'dense-smolm2'",
                "next_step": "Did you mean 'dense-smollm2'?",
            },
        ),
        (["certify", "dense-smollm2", "--row", "gpu"], {"error": "input", "field": "row", "found": "'gpu'"}),
        (["certify"], {"error": "input", "field": "RECIPES", "found": "none"}),
        (["certify", "dense-smollm2", "dense-qwen3-small", "--run-id", "x"], {"error": "input", "field": "--run-id"}),
        (["show", "nothing.sigstore.json"], {"error": "input", "found": "no such file or directory"}),
        (["sign", "nowhere"], {"error": "input", "field": "nowhere", "found": "no statement"}),
        (["verify-all", "nowhere"], {"error": "input", "field": "nowhere/catalogue.toml"}),
    ],
)
def test_bad_input_is_explained_in_json(arguments: list[str], error: dict[str, str]) -> None:
    ended = run(*arguments, "--json")
    assert ended.returncode == 2
    said = json.loads(ended.stdout)
    assert set(said) == {"error", "field", "found", "accepted", "next_step"}
    assert {name: said[name] for name in error} == error
    assert all(said.values())


def test_bad_input_is_explained_in_words() -> None:
    ended = run("certify", "dense-smolm2")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert [line.split()[0] for line in ended.stderr.splitlines()] == ["input:", "found", "accepted", "next"]


def test_an_unknown_option_is_a_usage_error() -> None:
    ended = run("certify", "--bogus")
    assert ended.returncode == 2
    assert "--bogus" in ended.stderr


@pytest.mark.parametrize("arguments", [["certify", "--bogus"], ["verify", "one.sigstore.json"], ["nonsense"]])
def test_a_usage_error_is_json_where_json_was_asked_for(arguments: list[str]) -> None:
    ended = run(*arguments, "--json")
    assert (ended.returncode, ended.stderr) == (2, "")
    said = json.loads(ended.stdout)
    assert (said["error"], said["field"]) == ("input", "command line")
    assert said["next_step"].endswith("--help")


def test_a_path_that_looks_like_markup_is_a_path(tmp_path: Path) -> None:
    ended = run("certify", tmp_path / "[" / "x].toml")
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[0] == f"input: {tmp_path}/[/x].toml"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_disk_is_the_machine_s_fault() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "samebits", "show", "nothing.sigstore.json", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=120,
        )
    assert ended.returncode == 3
    assert "found No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_reader_that_went_away_has_not_read_a_pass() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "samebits", "show", "nothing.sigstore.json", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(timeout=120) == 141


def test_keygen_makes_a_pair_once(tmp_path: Path) -> None:
    made = run("keygen", "mine", "--folder", tmp_path, "--json")
    assert made.returncode == 0
    assert set(json.loads(made.stdout)) == {"private", "public", "keyid"}
    assert (tmp_path / "mine.pem").stat().st_mode & 0o777 == 0o600
    again = run("keygen", "mine", "--folder", tmp_path, "--json")
    assert again.returncode == 2
    assert json.loads(again.stdout)["error"] == "input"


def test_version() -> None:
    assert run("--version").stdout == f"samebits {__version__}\n"
