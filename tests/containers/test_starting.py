"""How containers are started, and what is believed of what they leave."""

from __future__ import annotations

import dataclasses
import os
import sys

import pytest

from samebits import certificate, pins
from samebits.containers import launcher, record, whole
from samebits.containers.place import Place
from samebits.errors import RowError
from samebits.pins.image import MANIFEST, RECORD


@pytest.fixture
def place(made, row, tmp_path):
    _, _, folder = made
    return Place(row=row, image=record.load("cpu", folder), run=tmp_path / "runs" / "one", folder=folder)


@pytest.fixture
def as_user(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 1001)


@pytest.mark.usefixtures("as_user")
def test_a_worker_is_a_docker_command(place, made, tmp_path):
    _, said, folder = made
    command = launcher.ContainerLauncher(place, tmp_path / "ids").command("samebits.engine.worker", "/spool")
    run, cache = tmp_path / "runs" / "one", folder / "cache" / "1000"
    known = folder / "started" / said.image.removeprefix("sha256:")
    names = [word for word in command if word.startswith("--env=") and "=" not in word.removeprefix("--env=")]
    assert "--env=OMP_NUM_THREADS" in names
    assert "--env=PATH" not in names
    assert [word for word in command if word not in names] == [
        "docker",
        "run",
        "--rm",
        f"--cidfile={tmp_path / 'ids' / f'{os.getpid()}-0.cid'}",
        "--pull=never",
        "--network=none",
        "--read-only",
        "--tmpfs=/tmp:rw,nosuid,nodev,size=2g,mode=1777",
        "--shm-size=1g",
        "--user=1000:1001",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--init",
        "--env=HOME=/tmp",
        f"--env=XDG_CACHE_HOME={cache}",
        "--env=USER=samebits",
        "--env=LOGNAME=samebits",
        "--label=samebits.run=one",
        f"--mount=type=bind,source={run},target={run}",
        f"--mount=type=bind,source={cache},target={cache}",
        f"--mount=type=bind,source={known},target=/run/samebits,readonly",
        "--entrypoint=/opt/samebits/bin/python",
        said.image,
        "-m",
        "samebits.engine.worker",
        "/spool",
    ]


@pytest.mark.usefixtures("as_user")
def test_a_gpu_row_gets_its_gpus_and_a_stack_its_own_interpreter(place, tmp_path):
    gpu_row = pins.load("h200-vllm-0.26")[0]
    there = Place(row=gpu_row, image=place.image, run=place.run, folder=place.folder)
    command = launcher.ContainerLauncher(there, tmp_path / "ids").command("m")
    assert "--gpus=all" in command
    assert command[-5:-2] == [
        "--env=PYTHONPATH=/opt/kit/link",
        "--entrypoint=/opt/stack/bin/python",
        there.image.record.image,
    ]
    (request,) = there.options({})["device_requests"]
    assert (request["Count"], request["Capabilities"]) == (-1, [["gpu"]])


@pytest.mark.usefixtures("as_user")
def test_both_ways_of_starting_shut_in_alike(place):
    options = place.options({})
    assert options["network_mode"] == "none"
    assert options["read_only"] is True
    assert options["user"] == "1000:1001"
    assert options["cap_drop"] == ["ALL"]
    assert options["security_opt"] == ["no-new-privileges"]
    writable = [mount["Target"] for mount in options["mounts"] if not mount["ReadOnly"]]
    assert writable == [str(place.run), str(place.cache)]
    assert options["device_requests"] is None


def test_root_hands_the_run_to_the_images_user(place, monkeypatch):
    owners = {}
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: owners.update({path: (uid, gid)}))
    place.make()
    assert owners == {place.run: (10001, 10001), place.folder / "cache" / "10001": (10001, 10001)}
    assert place.user == "10001:10001"


def test_a_parent_outside_and_its_workers_are_one_user(place, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(os, "getgid", lambda: 0)
    assert dataclasses.replace(place, parent_outside=True).user == "0:0"


def test_a_container_knows_its_image(place, monkeypatch):
    monkeypatch.setattr(os, "chown", lambda *_: None)
    place.make()
    assert pins.image.read(place.known) == place.image
    assert sorted(path.name for path in place.known.iterdir()) == [RECORD, MANIFEST]


def test_the_clients_way_to_docker_does_not_go_inside(place, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///x.sock")
    made = launcher.ContainerLauncher(place, tmp_path / "ids")
    assert made.environment(2)["DOCKER_HOST"] == "unix:///x.sock"
    assert made.environment(2)["OMP_NUM_THREADS"] == "2"
    assert not [word for word in made.command("m") if word.startswith("--env=DOCKER")]


def test_containers_of_killed_clients_are_removed(place, tmp_path, monkeypatch):
    """A ``docker`` of our own, which notes what it was asked."""
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "docker"
    notes = f"open({str(tmp_path / 'asked')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')"
    fake.write_text(f"#!{sys.executable}\nimport sys\n{notes}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(os, "chown", lambda *_: None)
    with launcher.launching(place) as made:
        for number, container in enumerate(("abc", "def", "")):
            made.command("m")
            (made.identifiers / f"{os.getpid()}-{number}.cid").write_text(container)
    assert (tmp_path / "asked").read_text() == "rm --force abc\nrm --force def\n"
    assert list(made.identifiers.iterdir()) == []


def statement(path, *, subject, named):
    """A statement as far as it is looked at."""
    subjects = [certificate.Subject(name=MANIFEST, sha256=subject), certificate.Subject(name="x", sha256="0" * 64)]
    configuration = [{"name": "torch", "digest": {"sha256": "1" * 64}}]
    configuration += [{"name": "image/cpu", "digest": {"sha256": digest}} for digest in named]
    path.write_bytes(certificate.write_statement(subjects, predicate(configuration)))
    return path


def predicate(configuration):
    material = {"id": "x", "sha256": "0" * 64}
    run = {"id": "r", "startedOn": "2026-01-01T00:00:00Z", "finishedOn": "2026-01-01T00:00:00Z", "producer": "p"}
    return certificate.Predicate.model_validate(
        {
            "row": material,
            "recipe": material,
            "kit": {"version": "1", "sha256": "0" * 64},
            "configuration": configuration,
            "environment": {},
            "run": run | {"resumed": False},
            "seeds": {},
            "reproduces": None,
            "limitations": [],
            "findings": {"verdict": "passed"},
        }
    )


def test_a_statement_that_names_its_image_twice_is_believed(place, tmp_path):
    said = place.image.record
    digest = said.image.removeprefix("sha256:")
    whole.require_said(statement(tmp_path / "s.statement.json", subject=digest, named=[digest]), said)


@pytest.mark.parametrize(("subject", "named"), [("right", []), ("right", ["wrong"]), ("wrong", ["right"])])
def test_a_statement_of_another_image_is_not_signed(place, tmp_path, subject, named):
    said = place.image.record
    digests = {"right": said.image.removeprefix("sha256:"), "wrong": "2" * 64}
    path = statement(tmp_path / "s.statement.json", subject=digests[subject], named=[digests[name] for name in named])
    with pytest.raises(RowError) as caught:
        whole.require_said(path, said)
    assert caught.value.accepted == f"{digests['right']}, the image that was started"
    assert caught.value.next_step == "It is not signed. Run again, in a new run folder."
