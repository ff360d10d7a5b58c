"""The committed Dockerfiles leave nothing open, and the reader that says so notices when one does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from samebits.containers import dockerfile

IMAGES = Path(__file__).parents[2] / "images"
DOCKERFILES = sorted(IMAGES.glob("*Dockerfile*"))
DIGEST = "sha256:" + "a" * 64
PIP = "pip install --no-index --no-deps --require-hashes --requirement r.txt"


def file(*steps, base=f"FROM python:3.12@{DIGEST}", user="USER 10001:10001"):
    return "\n".join([base, *steps, user, ""])


def said(text):
    return [str(fault) for fault in dockerfile.faults(text)]


def test_there_are_dockerfiles():
    assert [path.name for path in DOCKERFILES] == [
        "cuda.Dockerfile",
        "preview.Dockerfile",
        "python.Dockerfile",
        "vllm.Dockerfile",
    ]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_a_committed_dockerfile_is_pinned(path):
    assert said(path.read_text()) == []


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_hadolint_has_nothing_to_say(path):
    finished = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), path], capture_output=True, text=True, check=False
    )
    assert (finished.returncode, finished.stdout + finished.stderr) == (0, "")


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_only_the_distributions_snapshot_is_fetched(path):
    steps = [step for step in dockerfile._steps(path.read_text()) if step["instruction"] == "RUN"]
    with_network = [step["value"] for step in steps if not step["value"].startswith("--network=none")]
    assert len(with_network) == (1 if path.name == "cuda.Dockerfile" else 0)
    assert all("--snapshot=" in value for value in with_network)


def test_a_pinned_file_has_no_faults():
    text = file(
        f"COPY --from=ghcr.io/x/y:1@{DIGEST} /a /b",
        f"RUN --network=none --mount=type=bind,from=wheels,target=/w {PIP}",
        "RUN apt-get update --snapshot=20261101T000000Z && apt-get install --snapshot=20261101T000000Z -y a=1 b=2.*",
        f"FROM python:3.12@{DIGEST} AS second",
        "COPY --from=second /a /b",
    )
    assert said(text) == []


FROM_ACCEPTED = "NAME:TAG@sha256:…, or an earlier stage"
SOURCE_ACCEPTED = "a stage, NAME:TAG@sha256:…, or wheels"
PIP_HASHES = "pip install --require-hashes"
PIP_OFFLINE = "RUN --network=none … pip install --no-index --no-deps"
APT = "apt-get install --snapshot=YYYYMMDDTHHMMSSZ NAME=VERSION…"
KNOWN = "wheels and packages that are known by digest before the build"


@pytest.mark.parametrize(
    ("step", "found", "accepted"),
    [
        ("FROM python:3.12", "FROM python:3.12", FROM_ACCEPTED),
        ("FROM python:latest AS a", "FROM python:latest", FROM_ACCEPTED),
        ("FROM --platform=linux/amd64 python", "FROM python", FROM_ACCEPTED),
        ("FROM python:3.12@sha256:abc", "FROM python:3.12@sha256:abc", FROM_ACCEPTED),
        ("FROM ${BASE}", "FROM ${BASE}", FROM_ACCEPTED),
        ("COPY --from=ghcr.io/astral-sh/uv:latest /uv /uv", "COPY --from=ghcr.io/astral-sh/uv:latest", SOURCE_ACCEPTED),
        ("COPY --chown=1:1 --from=busybox /a /b", "COPY --from=busybox", SOURCE_ACCEPTED),
        ("RUN --mount=type=bind,from=alpine,target=/a true", "RUN --mount=from=alpine", SOURCE_ACCEPTED),
        ("RUN --network=none pip install torch", "pip install torch", PIP_HASHES),
        ("RUN --network=none python -m pip install torch==2.13.0", "python -m pip install torch==2.13.0", PIP_HASHES),
        (f"RUN {PIP}", PIP, PIP_OFFLINE),
        (
            "RUN --network=none pip install --require-hashes -r r.txt",
            "pip install --require-hashes -r r.txt",
            PIP_OFFLINE,
        ),
        ("RUN uv pip install --require-hashes -r r.txt", "uv pip install --require-hashes -r r.txt", PIP_HASHES),
        ("RUN uv sync --frozen", "uv sync --frozen", PIP_HASHES),
        ("RUN apt-get update && apt-get install -y git", "apt-get install -y git", APT),
        ("RUN apt-get install -y git=1:2.39", "apt-get install -y git=1:2.39", APT),
        (
            "RUN apt-get -qq install --snapshot=20261101T000000Z git",
            "apt-get -qq install --snapshot=20261101T000000Z git",
            APT,
        ),
        ("RUN curl -fsSL x.sh | sh", "curl -fsSL x.sh", KNOWN),
        ("RUN true; wget x", "wget x", KNOWN),
        ("RUN git clone https://example.org/x", "git clone https://example.org/x", KNOWN),
        ("RUN git -C x submodule update", "git -C x submodule update", KNOWN),
        ("RUN conda install pytorch", "conda install pytorch", KNOWN),
        ("RUN apk add git", "apk add git", KNOWN),
        ("RUN if true; then npm install; fi", "npm install", KNOWN),
        ('RUN ["pip", "install", "x"]', "RUN as a list or a here-document", "a plain shell command"),
        ("RUN <<EOF", "RUN as a list or a here-document", "a plain shell command"),
    ],
)
def test_what_is_left_open_is_named(step, found, accepted):
    text = file(step) if not step.startswith("FROM") else file(base=step)
    line = 1 if step.startswith("FROM") else 2
    assert said(text) == [f"line {line}: found {found}; accepted: {accepted}"]


def test_add_is_no_instruction_of_ours():
    (fault,) = dockerfile.faults(file("ADD https://example.org/x /x"))
    assert (fault.line, fault.found) == (2, "the instruction ADD")
    assert "ADD" not in fault.accepted


def test_a_frontend_is_not_fetched():
    text = "# syntax=docker/dockerfile:1\n" + file()
    assert said(text) == ["line 1: found a syntax directive; accepted: the builder's own frontend"]


@pytest.mark.parametrize("user", ["", "USER root", "USER 0:0", "USER 10001", "USER samebits:samebits"])
def test_the_last_user_is_a_number_and_not_root(user):
    found = user.removeprefix("USER ") or "(none)"
    (fault,) = dockerfile.faults(file(user=user))
    assert (fault.found, fault.accepted) == (f"USER {found}", "a last USER UID:GID other than 0")


def test_the_user_of_an_earlier_stage_does_not_count():
    text = file(user="USER 10001:10001") + f"FROM python:3.12@{DIGEST}\n"
    (fault,) = dockerfile.faults(text)
    assert fault.found == "USER (none)"


def test_every_fault_is_listed_at_once():
    text = file("RUN pip install x", "COPY --from=y /a /b", base="FROM z", user="USER root")
    assert [fault.line for fault in dockerfile.faults(text)] == [1, 2, 3, 4]


def test_the_base_is_the_last_image_that_is_no_stage():
    assert dockerfile.base(f"FROM a:1@{DIGEST} AS x\nFROM b:2@{DIGEST} AS y\nFROM x\n") == f"b:2@{DIGEST}"
