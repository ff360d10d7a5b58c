"""``samebits images``: build the images of rows, and check them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samebits import pins
from samebits.certificate import write_atomic
from samebits.cli.container import FOLDER, require_client
from samebits.cli.output import console, print_json
from samebits.cli.reporter import ConsoleReporter
from samebits.errors import MachineError

group = typer.Typer(
    name="images",
    help="Build the container images of rows, and check that they are what the rows pin. Needs your Docker (buildx).",
    no_args_is_help=True,
)

Rows = Annotated[list[str], typer.Argument(help="Rows by id.")]
Folder = Annotated[Path, typer.Option(help="Folder for records, wheels and SBOMs.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the group to ``app``."""
    app.add_typer(group)


@group.command()
def build(
    rows: Rows,
    folder: Folder = FOLDER,
    base: Annotated[
        str | None,
        typer.Option(help="NAME@sha256:… of a local image that stands in for the row's base; certificates say so."),
    ] = None,
    twice: Annotated[
        bool, typer.Option("--twice", help="Build a second time without any cache; fail if the digests differ.")
    ] = False,
    json: Json = False,
) -> None:
    """Build the image of each row in a checkout, record its digest and write its SBOM.

    Wheels are fetched first and held against lock/ by digest; no step of the build has a network. What came out is
    held against the row. Exit code: 0, 2 if something is not as pinned, 3 without a Docker engine or on a full disk.
    """
    require_client()
    from samebits.containers import record  # noqa: PLC0415 - see require_client
    from samebits.containers.build import Builder  # noqa: PLC0415

    made = []
    with ConsoleReporter() as reporter:
        builder = Builder(root=Path.cwd(), folder=folder, base=base, say=reporter.line)
        for row in rows:
            reporter.line(f"row {row}")
            made.append(builder.build(row))
            if twice:
                _require_same(row, made[-1].image, builder.digest(row))
    if json:
        print_json({"images": [one.model_dump() for one in made]})
        return
    for one in made:
        console.print(f"row {one.row}: {one.image}, recorded in {record.record_path(one.row, folder)}", soft_wrap=True)


@group.command()
def check(rows: Rows, folder: Folder = FOLDER, json: Json = False) -> None:
    """Say whether the recorded image of each row may be certified in: its digest, its tag, and what it holds.

    The same checks precede every certification in a container.
    """
    require_client()
    from samebits.containers import admit, daemon, record  # noqa: PLC0415 - see require_client

    client = daemon.connect()
    found = {}
    for row_id in rows:
        row, data = pins.load(row_id)
        running = record.load(row_id, folder)
        admit.admit(client, row, pins.digest(data), running.record)
        found[row_id] = running.record.image
    if json:
        print_json({"images": found})
        return
    for row_id, image in found.items():
        console.print(f"row {row_id}: {image} is as it was built and as the row pins", soft_wrap=True)


@group.command(name="bake")
def bake_file(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if the file is not current.")] = False,
) -> None:
    """Make images/docker-bake.json from the rows, in a checkout."""
    require_client()
    from samebits.containers import bake  # noqa: PLC0415 - see require_client

    root = Path.cwd()
    if check:
        bake.check(root)
    else:
        write_atomic(root / bake.FILE, bake.render(root).encode())
    console.print(f"{bake.FILE}: {len(bake.buildable(root))} targets{' as they would be made' if check else ''}")


def _require_same(row: str, first: str, second: str) -> None:
    if first != second:
        raise MachineError(
            f"row {row}: second build",
            found=second,
            accepted=f"{first}, as the first build gave",
            next_step="Compare the two: something in the build depends on time or order.",
        )
