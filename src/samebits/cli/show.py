"""``samebits show``: what a certificate says, for a person. Nothing is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samebits import certificate
from samebits.cli.output import console, print_json
from samebits.cli.summary import attested_view, checks_view, findings_view


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(name="show")(show)


def show(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate or an unsigned statement.")],
    json: Annotated[bool, typer.Option("--json", help="Print the statement as JSON.")] = False,
) -> None:
    """Print what a certificate says, without checking it.

    Use 'samebits verify' before you believe a word: this command reads the file without any key.
    """
    statement = certificate.read_unverified(path)
    if json:
        print_json(statement.to_dict())
        return
    predicate = statement.predicate
    console.print("[yellow]Not verified:[/] this is what the file says. 'samebits verify' checks it.")
    console.print(attested_view(predicate))
    console.print()
    console.print(checks_view(predicate["findings"]))
    console.print()
    console.print(findings_view(predicate["findings"], title="findings"))
