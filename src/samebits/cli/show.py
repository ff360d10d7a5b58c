"""``samebits show``: what a certificate says, for a person. Nothing is checked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.errors import MarkupError

from samebits import certificate
from samebits.cli.output import console, print_json
from samebits.cli.summary import attested_view, checks_view, findings_view
from samebits.errors import InvalidCertificate


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
    try:
        with console.capture() as shown:
            console.print()
            console.print(checks_view(predicate["findings"]))
            console.print()
            console.print(findings_view(predicate["findings"], title="findings"))
    except (AttributeError, LookupError, TypeError, ValueError, MarkupError) as error:
        # Nothing has checked them yet: of the findings, only the verdict's place is part of the format.
        raise InvalidCertificate(
            f"{path.name}: findings",
            found=f"something that no oracle wrote ({type(error).__name__}: {error})",
            accepted="findings",
            next_step="See them with --json; do not rely on this certificate.",
        ) from None
    sys.stdout.write(shown.get())
