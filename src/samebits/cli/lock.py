"""``samebits lock``: makes the hashed requirements, or says what has drifted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samebits.cli.output import console, print_json
from samebits.pins import lock as lock_room


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(name="lock")(lock)


def lock(
    targets: Annotated[
        list[str] | None, typer.Argument(help=f"Of {', '.join(lock_room.TARGETS)}; all without any.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a file is not what would be made.")
    ] = False,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Take newer releases where pyproject.toml allows.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make lock/TARGET.txt anew, every release with its hashes, in a checkout of the kit.

    torch stays out: a row lists its accepted builds by what they contain. A row file that names a requirements file
    gets the new digest. Needs uv. Exit code: 0, or 2 if --check finds that something has drifted.
    """
    counts = {
        name: len(lock_room.relock(name, root=Path.cwd(), check=check, upgrade=upgrade))
        for name in targets or lock_room.TARGETS
    }
    if json:
        print_json({"releases": counts})
        return
    for name, count in counts.items():
        console.print(f"lock/{name}.txt: {count} releases{' as they would be made' if check else ''}")
