"""``samebits doctor``: what this machine can certify, and what it lacks."""

from __future__ import annotations

from typing import Annotated

import typer

from samebits import pins
from samebits.cli.output import console, print_json, styled, table


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(name="doctor")(doctor)


def doctor(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say which rows this machine can certify, and for the others what is missing.

    Compares what is installed with each row's pins: versions, the digest of torch's build, and the files on disk with
    the wheel's own record. Exit code: 0 if at least one row can be certified here, else 3.
    """
    diagnosis = pins.diagnose()
    if json:
        print_json(diagnosis.to_dict())
    else:
        machine = table("machine", "")
        for name, value in diagnosis.machine.items():
            machine.add_row(name, value if isinstance(value, str) else ", ".join(value))
        console.print(machine)
        for row in diagnosis.rows:
            console.print()
            word = "passed" if row.ready else "failed"
            console.print(
                f"[bold]{row.id}[/]  {row.title}: {styled(word).replace(word, 'ready' if row.ready else 'not ready')}"
            )
            findings = table("", "what", "found", "accepted")
            for finding in row.findings:
                findings.add_row(
                    styled("passed" if finding.ok else "failed"), finding.name, finding.found, finding.accepted
                )
            console.print(findings)
            for limitation in row.limitations:
                console.print(f"  limitation: {limitation}")
    raise typer.Exit(0 if any(row.ready for row in diagnosis.rows) else 3)
