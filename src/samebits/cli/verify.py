"""``samebits verify`` and ``samebits verify-all``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from samebits import verify as verify_room
from samebits.cli.output import console, print_json, styled, table
from samebits.cli.summary import report_view


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(name="verify")(verify)
    app.command(name="verify-all")(verify_all)


def verify(
    certificate: Annotated[
        Path, typer.Argument(help="A signed certificate, X.sigstore.json, with X.evidence/ beside it.")
    ],
    key: Annotated[
        Path, typer.Option(help="Public key (PEM) of the signer you trust. Yours to choose, never the file's.")
    ],
    evidence: Annotated[
        Path | None, typer.Option(help="The evidence folder, if it is not beside the certificate.")
    ] = None,
    revoked: Annotated[Path | None, typer.Option(help="A revoked.toml to respect.")] = None,
    require_shipped: Annotated[
        bool, typer.Option(help="Refuse a recipe or row that no version of this kit ships.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a certificate without trusting its arithmetic.

    The signature is checked with your key; then every claim that can be is derived again from the evidence (marked
    derived), and the rest is shown as what the signer says (marked attested). Exit code: 0 valid and passed, 1 valid
    but not passed, 2 invalid.
    """
    report = verify_room.verify(
        certificate, key, evidence_folder=evidence, revoked=revoked, require_shipped=require_shipped
    )
    if json:
        print_json(report.to_dict())
    else:
        console.print(report_view(report))
    raise typer.Exit(report.exit_code)


def verify_all(
    folder: Annotated[Path, typer.Argument(help="A folder with catalogue.toml.")] = Path("certs"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Verify every certificate of a catalogue against the exit code that it declares.

    A certificate that the catalogue does not name is a fault too. Exit code: 0 if each ended as declared, else 2.
    """
    outcomes = verify_room.verify_catalogue(folder)
    if json:
        print_json({"certificates": [outcome.to_dict() for outcome in outcomes]})
    else:
        shown = table("certificate", "declared", "found", "")
        for outcome in outcomes:
            word = "passed" if outcome.as_declared else "failed"
            reason = f"{styled(word)} {escape(outcome.reason)}"
            shown.add_row(escape(outcome.path), str(outcome.declared), str(outcome.found), reason)
        console.print(shown)
    raise typer.Exit(0 if all(outcome.as_declared for outcome in outcomes) else 2)
