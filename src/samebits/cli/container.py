"""``samebits certify --container``: the same certification, in the row's image."""

from __future__ import annotations

import datetime as dt
import importlib.util
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import typer

from samebits import certificate
from samebits.certify import folder, run
from samebits.certify.order import Order
from samebits.certify.reporter import Reporter
from samebits.errors import InputError, MachineError
from samebits.oracle import judge

FOLDER: Final = Path(".images")
"""Records of images, beside the runs."""

EVIDENCE: Final = f"{folder.STEM}.evidence"
STATEMENT: Final = f"{folder.STEM}.statement.json"


def require_client() -> None:
    """Nothing, if the Docker client is installed: who certifies and verifies without containers does not need it.

    Raises:
        MachineError: it is not.
    """
    if importlib.util.find_spec("docker") is None:
        raise MachineError(
            "Docker client",
            found="the Python package docker is not installed",
            accepted="it, from the extra 'images'",
            next_step="Use the nox sessions, or: pip install 'samebits[images]'",
        )


def certify_in_image(
    order: Order, *, split: bool, runs: Path, run_id: str | None, images: Path, reporter: Reporter
) -> run.Finished:
    """A certification in containers of the row's recorded image, unsigned: no key is ever inside.

    With ``split`` the parent stays here and each engine and each actor has a container of its own; otherwise one
    container holds them all.

    Raises:
        InputError, RowError: the image may not be certified in.
        MachineError: no Docker engine, or it fails.
        typer.Exit: the run inside did not come to an end; it has said why, and its exit code is kept.
    """
    require_client()
    from samebits.containers import admit, daemon, record, whole  # noqa: PLC0415 - see require_client
    from samebits.containers.launcher import launching  # noqa: PLC0415
    from samebits.containers.place import Place  # noqa: PLC0415

    client = daemon.connect()
    running = record.load(order.row.id, images)
    admit.admit(client, order.row, order.row_sha256, running.record)
    reporter.line(f"image  {running.record.image}, as it was built")
    path = _new_folder(order, runs, run_id).absolute()
    place = Place(row=order.row, image=running, run=path, folder=images.absolute(), parent_outside=split)
    if split:
        with launching(place) as launcher:
            inside = replace(order, launcher=launcher, image=running)
            return run.start(inside, runs=path.parent, run_id=path.name, reporter=reporter)
    began = time.monotonic()
    code = whole.certify(client, place, order.recipe_file)
    statement = path / STATEMENT
    if not statement.is_file():
        raise typer.Exit(code or MachineError.exit_code)
    whole.require_said(statement, running.record)
    certificate.check_subjects(certificate.read_unverified(statement).subjects, path / EVIDENCE)
    return run.Finished(
        path=path,
        statement=statement,
        findings=judge(path / EVIDENCE, order.recipe),
        seconds=time.monotonic() - began,
    )


def _new_folder(order: Order, runs: Path, run_id: str | None) -> Path:
    path = runs / (run_id or f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}-{order.recipe.id}")
    if path.is_dir() and any(path.iterdir()):
        raise InputError(
            f"run folder {path}",
            found="a folder that is not empty",
            accepted="a new folder",
            next_step="Choose another --run-id; a run in a container cannot be continued.",
        )
    return path
