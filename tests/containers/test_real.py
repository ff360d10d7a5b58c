"""With a real engine and the real image of the row cpu.

SAMEBITS_TEST_IMAGES names the folder of its record (``.images`` after ``nox -s images -- cpu``); without it these tests
are reported as not run.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from samebits.containers import admit, daemon, record
from samebits.containers.launcher import launching
from samebits.containers.place import USER, Place
from samebits.errors import GateError, RowError, WorkerError
from samebits.spool import Worker

IMAGES = os.environ.get("SAMEBITS_TEST_IMAGES", "")

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not IMAGES, reason="not run: SAMEBITS_TEST_IMAGES names no folder of built images"),
]


@pytest.fixture
def client():
    made = daemon.connect()
    yield made
    made.close()


@pytest.fixture
def place(row, tmp_path):
    return Place(row=row, image=record.load("cpu", Path(IMAGES)), run=tmp_path / "run", folder=tmp_path / "images")


@pytest.fixture
def known(place):
    """The place with the records that a start copies, for a whole certification inside."""
    return ready(place)


@pytest.fixture
def shared(place):
    """The same, for a parent outside and workers inside."""
    return ready(dataclasses.replace(place, parent_outside=True))


def ready(place):
    place.folder.mkdir()
    for path in (record.record_path("cpu", Path(IMAGES)), record.manifest_path("cpu", Path(IMAGES))):
        (place.folder / path.name).write_bytes(path.read_bytes())
    for folder in place.run.parents:
        if folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):  # noqa: S108 - pytest's own are 0700
            folder.chmod(0o755)
    place.make()
    return place


def inside(place, code):
    """What Python says in a container of the place."""
    command = ["docker", "run", "--rm", *place.arguments(), "--entrypoint=/opt/samebits/bin/python"]
    finished = subprocess.run(
        [*command, place.image.record.image, "-c", code], capture_output=True, text=True, check=False
    )
    return finished.stdout.strip() or finished.stderr.strip().splitlines()[-1]


def test_the_built_image_is_admitted(client, row, material, known):
    admit.admit(client, row, material, known.image.record)


def test_it_cannot_reach_anything(known):
    code = "import socket; print(sorted(name for _, name in socket.if_nameindex()))"
    assert inside(known, code) == "['lo']"


def test_it_cannot_write_but_where_it_should(known):
    attempt = "import pathlib; pathlib.Path({!r}, 'x').write_text('x'); print('written')"
    assert inside(known, attempt.format("/opt/kit")) == "OSError: [Errno 30] Read-only file system: '/opt/kit/x'"
    assert inside(known, attempt.format("/run/samebits")).startswith("OSError: [Errno 30] Read-only file system")
    assert inside(known, attempt.format("/tmp")) == "written"  # noqa: S108
    assert inside(known, attempt.format(str(known.run))) == "written"
    assert (known.run / "x").read_text() == "x"


def test_it_is_nobody_special(known):
    user = USER if os.getuid() == 0 else os.getuid()
    assert inside(known, "import os; print(os.getuid())") == str(user)
    code = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('CapEff')))"
    assert inside(known, code) == "0" * 16


def test_it_knows_which_image_it_is(known):
    code = "from samebits import pins; print(pins.image.here().record.image, pins.inventory.load().row)"
    assert inside(known, code) == f"{known.image.record.image} cpu"


@pytest.fixture
def changed(client, known):
    """Images that somebody changed after they were built: a function of a shell command, and they are removed."""
    made = []

    def change(command):
        container = client.containers.create(
            known.image.record.image, ["-c", command], entrypoint="/bin/sh", user="0:0", network_mode="none"
        )
        container.start()
        assert container.wait()["StatusCode"] == 0
        changes = ['ENTRYPOINT ["/opt/samebits/bin/python", "-m", "samebits"]', "USER 10001:10001"]
        made.append(container.commit(changes=changes))
        container.remove()
        return made[-1].id

    yield change
    for image in made:
        client.images.remove(image.id, force=True)


SITE = "/opt/samebits/lib/python3.11/site-packages"
EXTRA = (
    f"mkdir {SITE}/evil-1.dist-info && cd {SITE}/evil-1.dist-info && "
    "printf 'Metadata-Version: 2.1\\nName: evil\\nVersion: 1\\n' >METADATA && touch RECORD"
)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (EXTRA, "extra package evil"),
        (f"for file in {SITE}/numpy/linalg/_umath_linalg.*.so; do printf x >>$file; done", "another library "),
        (f"cp {SITE}/numpy/linalg/_umath_linalg.*.so /opt/samebits/lib/libgomp.so.1", "extra library lib/libgomp.so.1"),
    ],
)
def test_an_image_that_was_changed_certifies_nothing(known, changed, command, found):
    image = changed(command)
    arguments = ["docker", "run", "--rm", *known.arguments(), image]
    doctor = subprocess.run([*arguments, "doctor", "--json"], capture_output=True, text=True, check=False)
    (cpu,) = [one for one in json.loads(doctor.stdout)["rows"] if one["id"] == "cpu"]
    (contents,) = [one for one in cpu["findings"] if one["name"] == "image: contents"]
    assert contents["found"].startswith(found)
    assert not cpu["ready"]
    run = ["certify", "ds4-small", "--row", "cpu", "--runs", str(known.run), "--run-id", "x", "--unsigned", "--json"]
    certify = subprocess.run([*arguments, *run], capture_output=True, text=True, check=False)
    assert (certify.returncode, json.loads(certify.stdout)["field"]) == (2, "row cpu: image: contents")


def test_a_changed_image_under_the_same_tag_is_not_the_recorded_one(client, row, material, known, changed):
    image = changed("true")
    client.images.get(image).tag("samebits/cpu")
    try:
        with pytest.raises(RowError) as caught:
            admit.admit(client, row, material, known.image.record)
    finally:
        client.images.get(known.image.record.image).tag("samebits/cpu")
    assert caught.value.found == f"a tag that was moved to {image}"


def running(client, place):
    return client.containers.list(filters={"label": f"samebits.run={place.run.name}"})


def worker(launcher, place, name):
    spool = place.run / "spool" / name
    return Worker.start(
        name=name,
        command=launcher.command(f"samebits.{name}.worker", str(spool)),
        spool=spool,
        log=place.run / "logs" / f"{name}.log",
        environment=launcher.environment(1),
        wait=False,
    )


def test_engine_and_actor_live_in_two_containers(client, shared):
    with (
        launching(shared) as launcher,
        worker(launcher, shared, "engine") as engine,
        worker(launcher, shared, "actor") as actor,
    ):
        for one in (engine, actor):
            with pytest.raises((GateError, WorkerError)):
                one.call("construct", {}, timeout=120)
        assert [one.attrs["Image"] for one in running(client, shared)] == [shared.image.record.image] * 2
    assert running(client, shared) == []


def test_a_container_does_not_outlive_the_client_that_was_killed(client, shared):
    with launching(shared) as launcher:
        started = worker(launcher, shared, "engine")
        deadline = time.monotonic() + 60
        while not running(client, shared) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(running(client, shared)) == 1
        started._group.kill()
        assert len(running(client, shared)) == 1  # the client is gone, its container is not
    assert running(client, shared) == []


def test_another_architecture_is_refused(client, row, material, known):
    arm = row.model_copy(update={"hardware": row.hardware.model_copy(update={"arch": "aarch64"})})
    with pytest.raises(RowError) as caught:
        admit.admit(client, arm, material, known.image.record)
    assert (caught.value.found, caught.value.accepted) == ("amd64", "arm64")
