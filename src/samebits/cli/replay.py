"""``samebits replay``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from samebits import pins
from samebits.certificate import evidence_folder
from samebits.cli.output import console, print_json, styled, table
from samebits.cli.reporter import ConsoleReporter
from samebits.cli.stack import stack_launcher
from samebits.replay import Outcome, row_of
from samebits.replay import replay as execute

SHOWN = 20
"""Differences in the table; JSON has all."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(name="replay")(replay)


def replay(
    certificate: Annotated[
        Path, typer.Argument(help="A signed certificate, X.sigstore.json, with X.evidence/ beside it.")
    ],
    key: Annotated[Path, typer.Option(help="Public key (PEM) of the signer. Yours to choose, never the file's.")],
    k: Annotated[int, typer.Option("-k", help="How many random trajectories are generated again.")] = 8,
    seed: Annotated[
        int | None,
        typer.Option(help="Draws them; a fresh one unless given. Who made the certificate must not know it."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Look at so many rounds only, from the first on: cheaper, and covers less.")
    ] = None,
    row: Annotated[
        str | None, typer.Option(help="Row to run on, by id or path. Default: the certificate's, as this kit has it.")
    ] = None,
    stack: Annotated[
        Path | None, typer.Option(help="Python interpreter that holds the row's stack, where it has one of its own.")
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option(help="The evidence folder, if it is not beside the certificate.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Execute again what a certificate's evidence records, and compare bits. Needs a machine like the certificate's.

    The certificate is verified first. Then the weights are made again, from the recipe and by repeating the recorded
    optimizer steps; K random trajectories are drawn again from prompt and seed; and in every round up to the last of
    them, all trajectories go through recompute and training forward again. So evidence that was made up is found, with
    the stated probability. Exit code: 0 everything is as recorded, 1 something differs, 2 the certificate is invalid, 3
    this machine is not comparable.
    """
    folder = evidence or evidence_folder(certificate)
    chosen = pins.load(row)[0] if row is not None else row_of(folder)
    with ConsoleReporter() as reporter:
        outcome = execute(
            certificate,
            key,
            count=k,
            seed=seed,
            rounds=rounds,
            row=chosen,
            launcher=stack_launcher(chosen, stack, reporter),
            evidence=evidence,
            reporter=reporter,
        )
    if json:
        print_json(outcome.to_dict())
    else:
        _show(outcome)
    raise typer.Exit(outcome.exit_code)


def _show(outcome: Outcome) -> None:
    shown = table("", "")
    shown.add_row("verdict", f"{styled('failed')} differs" if outcome.differences else f"{styled('passed')} confirmed")
    shown.add_row(
        "coverage",
        f"{outcome.rounds} of {outcome.rounds_in_all} rounds; {len(outcome.sampled)} of {outcome.trajectories} "
        f"trajectories generated again (seed {outcome.seed})",
    )
    shown.add_row("compared", ", ".join(f"{count} {side}" for side, count in sorted(outcome.compared.items())))
    for chance in outcome.chances:
        said = chance.to_dict()
        shown.add_row(
            "chance",
            f"{said['probability']} that one of {chance.forged} forged among {chance.among} is in the sample",
        )
    if not outcome.same_kit:
        shown.add_row("kit", "another one made the certificate: a difference may be the kit's")
    shown.add_row("time", f"{outcome.seconds:.0f} s")
    for difference in outcome.differences[:SHOWN]:
        shown.add_row("differs", escape(str(difference)[:300]))
    if len(outcome.differences) > SHOWN:
        shown.add_row("", f"and {len(outcome.differences) - SHOWN} more")
    console.print(shown)
