"""A whole certification in one container: parent, engines and actors; the key and the signature stay outside."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import docker

from samebits import certificate
from samebits.containers.daemon import explained
from samebits.containers.place import STACK_PYTHON, Place
from samebits.errors import RowError
from samebits.pins.image import MANIFEST, PLACE, Record

RECIPE: Final = str(PLACE.with_name("samebits-recipe.toml"))
STOP_SECONDS: Final = 15


def certify(client: docker.DockerClient, place: Place, recipe_file: bytes) -> int:
    """Run the recipe in a new container and pass on what it says; its exit code.

    The run's folder must be new: what is in it afterwards, the container wrote.

    Raises:
        MachineError: the engine fails.
    """
    place.make()
    recipe = place.known / "recipe.toml"
    certificate.write_atomic(recipe, recipe_file)
    run = place.run.absolute()
    command = ["certify", RECIPE, "--row", place.row.id, "--runs", str(run.parent), "--run-id", run.name, "--unsigned"]
    if place.row.stack is not None:
        command += ["--stack", STACK_PYTHON]
    options = place.options({recipe: RECIPE})
    with _container(client, place.image.record.image, command, options) as container:
        # Its table goes to standard output; the caller prints one of its own, from the evidence.
        for piece in container.logs(stream=True, follow=True, stdout=False, stderr=True):
            sys.stderr.buffer.write(piece)
            sys.stderr.buffer.flush()
        return int(container.wait()["StatusCode"])


def require_said(statement: Path, record: Record) -> None:
    """Nothing, if the statement that the container left names the image that it ran in, in both places.

    Raises:
        RowError: it does not: it was not made by this container, and is not signed.
    """
    said = certificate.read_unverified(statement)
    digest = record.image.removeprefix("sha256:")
    subjects = {subject.name: subject.sha256 for subject in said.subjects}
    named = [one["digest"].get("sha256") for one in said.predicate["configuration"] if one["name"].startswith("image/")]
    if subjects.get(MANIFEST) != digest or named != [digest]:
        raise RowError(
            str(statement),
            found=f"subject {subjects.get(MANIFEST)} and configuration {', '.join(map(str, named)) or 'none'}",
            accepted=f"{digest}, the image that was started",
            next_step="It is not signed. Run again, in a new run folder.",
        )


@contextlib.contextmanager
def _container(client: docker.DockerClient, image: str, command: list[str], options: dict[str, Any]) -> Iterator[Any]:
    """A started container, stopped and removed however this ends."""
    with explained(f"container of {image}"):
        container = client.containers.create(image, command, **options)
    try:
        with explained(f"container of {image}"):
            container.start()
            yield container
    except BaseException:
        # Asked first, so that workers end and files are whole.
        with contextlib.suppress(Exception):
            container.stop(timeout=STOP_SECONDS)
        raise
    finally:
        with contextlib.suppress(Exception):
            container.remove(force=True)
