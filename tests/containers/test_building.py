"""What stops a build before Docker is asked for anything, and what stops it afterwards."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import pytest

from samebits import pins
from samebits.containers import bake, build, daemon, wheels
from samebits.containers.build import Builder
from samebits.errors import InputError, MachineError, RowError
from samebits.hashing import sha256_bytes

CHECKOUT = Path(__file__).parents[2]


def builder(checkout, tmp_path, **options):
    return Builder(root=checkout, folder=tmp_path / ".images", **options)


def refused(kind, checkout, tmp_path, row="cpu", **options):
    with pytest.raises(kind) as caught:
        builder(checkout, tmp_path, **options).build(row)
    return caught.value


@pytest.fixture
def no_engine(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    yield
    gc.collect()  # the Docker client leaves a socket open that it could not connect


def test_the_committed_bake_file_is_what_the_rows_say():
    bake.check(CHECKOUT)


def test_every_row_with_a_dockerfile_is_a_target():
    targets = json.loads((CHECKOUT / bake.FILE).read_text())["target"]
    rows = {row.id.replace(".", "-"): row for row, _ in bake.buildable(CHECKOUT)}
    assert set(targets) == set(rows)
    assert targets["h200-vllm-0-26"]["platforms"] == ["linux/amd64"]
    assert targets["gb200-vllm-0-33"]["platforms"] == ["linux/arm64"]
    for name, row in rows.items():
        assert targets[name]["args"]["MATERIAL"] == sha256_bytes((CHECKOUT / "lock" / f"{row.id}.toml").read_bytes())


def test_torch_is_the_build_that_was_certified(row):
    digest = row.torch_builds[0].wheel_sha256
    assert bake.torch_requirement(row) == f"torch==2.13.0 --hash=sha256:{digest}"


def test_no_torch_where_the_base_brings_it():
    assert bake.torch_requirement(pins.load(CHECKOUT / "lock" / "h200-vllm-0.26.toml")[0]) == ""


def test_a_row_that_changed_since_the_bake_file_was_made(checkout, tmp_path):
    path = checkout / "lock" / "cpu.toml"
    path.write_text(path.read_text() + "# another thought\n")
    error = refused(RowError, checkout, tmp_path)
    assert (error.field, error.next_step) == ("images/docker-bake.json", "Make it again: samebits images bake")


def test_a_dockerfile_that_starts_from_something_else(checkout, tmp_path):
    path = checkout / "images" / "python.Dockerfile"
    path.write_text(path.read_text().replace("@sha256:a36c", "@sha256:b36c"))
    error = refused(RowError, checkout, tmp_path)
    assert error.field == "row cpu-vllm-0.32: base_image"  # the first of this Dockerfile's rows, by file
    assert error.accepted.endswith(", from which images/python.Dockerfile starts")


def test_an_edited_requirement(checkout, tmp_path):
    path = checkout / "lock" / "cpu.txt"
    path.write_text(path.read_text().replace("numpy==2.4.6", "numpy==2.4.5"))
    error = refused(RowError, checkout, tmp_path)
    assert error.field == "lock/cpu.txt"
    assert error.found == sha256_bytes(path.read_bytes())
    assert error.accepted.endswith(", as lock/cpu.toml says")


def test_a_base_that_is_named_by_a_tag(checkout, tmp_path):
    error = refused(InputError, checkout, tmp_path, base="local/python-base:bookworm")
    assert (error.field, error.found) == ("--base", "'local/python-base:bookworm'")


def test_wheels_that_nobody_has_built(checkout, tmp_path):
    error = refused(RowError, checkout, tmp_path, row="h100-ds4-preview")
    assert error.field == "row h100-ds4-preview: materials"
    assert error.found == "no wheel_sha256 for vLLM, Megatron-core, DeepGEMM, DeepEP, FlashInfer"


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("no_engine")
def test_no_engine(checkout, tmp_path):
    error = refused(MachineError, checkout, tmp_path)
    assert (error.field, error.exit_code) == ("Docker engine", 3)
    assert error.found.startswith("none that answers (")
    assert error.next_step.endswith("Nothing was run, so nothing is counted as passed.")


def test_another_architecture(checkout, tmp_path, made, monkeypatch):
    client, _, _ = made
    monkeypatch.setattr(daemon, "connect", lambda: client)
    error = refused(MachineError, checkout, tmp_path, row="gb200-vllm-0.33")
    assert (error.found, error.accepted) == ("a Docker engine on x86_64", "aarch64")


def test_no_room(checkout, tmp_path, made, monkeypatch):
    client, _, _ = made
    monkeypatch.setattr(daemon, "connect", lambda: client)
    usage = type("usage", (), {"free": 5 << 30})
    monkeypatch.setattr(build.shutil, "disk_usage", lambda _: usage)
    error = refused(MachineError, checkout, tmp_path)
    assert (error.field, error.accepted) == ("row cpu: disk", "11 GiB")


@pytest.fixture
def wheelhouse(tmp_path):
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / "x-1.0-py3-none-any.whl").write_bytes(b"what was pinned")
    return folder


LOCK = f"x==1.0 \\\n    --hash=sha256:{sha256_bytes(b'what was pinned')}\n"


def test_wheels_that_the_lock_lists(wheelhouse):
    wheels.check(wheelhouse, [LOCK])


def test_a_tampered_wheel(wheelhouse):
    path = wheelhouse / "x-1.0-py3-none-any.whl"
    path.write_bytes(b"what was not")
    with pytest.raises(RowError) as caught:
        wheels.check(wheelhouse, [LOCK])
    error = caught.value
    assert (error.field, error.found) == (str(path), f"sha256 {sha256_bytes(b'what was not')}")
    assert (error.accepted, error.exit_code) == ("a wheel whose sha256 the lock lists", 2)


def test_a_tampered_wheel_stops_the_fetch_before_pip(wheelhouse, tmp_path, monkeypatch):
    (wheelhouse / "y.whl").write_bytes(b"extra")
    lock = tmp_path / "lock.txt"
    lock.write_text(LOCK)
    monkeypatch.setattr(wheels.subprocess, "run", lambda *_, **__: pytest.fail("pip was asked"))
    with pytest.raises(RowError):
        wheels.fetch([lock], wheelhouse, python="3.11", arch="x86_64")


@pytest.mark.parametrize(
    ("words", "kind", "found"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES from r.txt:\n Got  abc", RowError, "from r.txt: Got abc"),
        ("OSError: [Errno 28] No space left on device", MachineError, "a full disk"),
        ("ERROR: No matching distribution", MachineError, "ERROR: No matching distribution"),
    ],
)
def test_what_pip_complains_about(tmp_path, monkeypatch, words, kind, found):
    lock = tmp_path / "lock.txt"
    lock.write_text(LOCK)
    finished = type("finished", (), {"returncode": 1, "stderr": words})
    monkeypatch.setattr(wheels.subprocess, "run", lambda *_, **__: finished)
    with pytest.raises(kind) as caught:
        wheels.fetch([lock], tmp_path / "wheels", python="3.11", arch="x86_64")
    assert caught.value.found == found


def test_platforms_go_down_to_the_oldest():
    tags = wheels.platforms("aarch64")
    assert (tags[0], tags[-3:]) == (
        "manylinux_2_36_aarch64",
        ["manylinux_2_5_aarch64", "manylinux2014_aarch64", "linux_aarch64"],
    )


def test_a_tool_that_is_not_there(tmp_path):
    with pytest.raises(MachineError) as caught:
        daemon.run("syft", ["no-such-program"], log=tmp_path / "log")
    assert caught.value.found == "no program 'no-such-program'"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("one\\ntwo\\nERROR: it broke\\nthe Dockerfile again", "ERROR: it broke"),
        ("write /x: no space left on device", "a full disk"),
        ("plain", "plain"),
    ],
)
def test_a_tool_that_fails(tmp_path, words, found):
    with pytest.raises(MachineError) as caught:
        daemon.run("buildx", [sys.executable, "-c", f"print('{words}'); raise SystemExit(1)"], log=tmp_path / "log")
    assert (caught.value.found, caught.value.exit_code) == (found, 3)


def test_an_archive_without_the_image(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"")
    with pytest.raises(MachineError):
        build._manifest(tmp_path / "a.tar", f"sha256:{'1' * 64}")


def test_h100_is_h200_on_another_card():
    """What the gate lets through was seen on an H200; the H100 has the same kernels and must not get a word more."""
    rows = [pins.load(CHECKOUT / "lock" / f"{name}-vllm-0.26.toml")[0] for name in ("h200", "h100")]
    different = {"id", "title", "status", "hardware"}
    h200, h100 = (row.model_dump(exclude=different) for row in rows)
    for one in (*h200["torch_builds"], *h100["torch_builds"]):
        del one["status"]
    assert h100 == h200
