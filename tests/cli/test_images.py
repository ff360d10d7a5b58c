"""Images on the command line: what is said, and the exit code, where there is no engine, no image or no client."""

from __future__ import annotations

import gc
import json
import sys

import pytest

from samebits.cli import container, main

NOT_COUNTED = "Start it, or set DOCKER_HOST. Nothing was run, so nothing is counted as passed."


@pytest.fixture
def no_engine(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    yield
    gc.collect()  # the Docker client leaves a socket open that it could not connect


def run(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["samebits", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("no_engine")
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize(
    "arguments",
    [
        ("images", "check", "cpu", "--json"),
        ("certify", "ds4-small", "--row", "cpu", "--container", "--json"),
        ("certify", "ds4-small", "--row", "cpu", "--split", "--json"),
    ],
)
def test_without_an_engine_nothing_passes(capsys, monkeypatch, arguments):
    code, said = run(capsys, monkeypatch, *arguments)
    assert (code, said["field"], said["next_step"]) == (3, "Docker engine", NOT_COUNTED)


@pytest.mark.parametrize("option", ["--container", "--split"])
def test_a_run_in_a_container_cannot_be_continued(capsys, monkeypatch, option):
    code, said = run(capsys, monkeypatch, "certify", "--resume", "runs/x", option, "--json")
    assert (code, said["field"], said["found"]) == (2, "--resume", "with --container or --split")


def test_without_the_docker_client(capsys, monkeypatch):
    monkeypatch.setattr(container.importlib.util, "find_spec", lambda _: None)
    code, said = run(capsys, monkeypatch, "images", "build", "cpu", "--json")
    assert (code, said["field"]) == (3, "Docker client")
    assert said["next_step"] == "Use the nox sessions, or: pip install 'samebits[images]'"


def test_a_base_that_is_named_by_a_tag(capsys, monkeypatch):
    code, said = run(capsys, monkeypatch, "images", "build", "cpu", "--base", "python:3.11", "--json")
    assert (code, said["field"], said["accepted"]) == (2, "--base", "NAME@sha256:… or sha256:…")


def test_the_bake_file_is_current(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["samebits", "images", "bake", "--check"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.endswith("targets as they would be made\n")
