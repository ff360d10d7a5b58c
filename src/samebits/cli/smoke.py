"""``samebits smoke``: a minute that shows the parts are alive. Never a certification."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samebits import pins, recipe
from samebits.certify import smoke as smoke_room
from samebits.cli.output import console, print_json, styled, table
from samebits.cli.reporter import ConsoleReporter
from samebits.cli.stack import stack_launcher


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(name="smoke")(smoke)


def smoke(
    name: Annotated[str, typer.Argument(metavar="RECIPE", help="Recipe by id or path.")] = "dense-smollm2",
    row: Annotated[str, typer.Option(help="Row of the matrix, or 'auto'.")] = "auto",
    stack: Annotated[Path | None, typer.Option(help="Python interpreter that holds the row's stack.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")] = False,
) -> None:
    """Let the real model answer a few problems, greedily and sampled, and compare rollout with recompute.

    Greedy decoding is deterministic and so a good smoke test, but it says nothing about on-policy sampling: this
    command writes no certificate. Exit code: 0 all bits equal, 1 some differ.
    """
    loaded, _ = recipe.load(name)
    chosen, _, reason = pins.choose(None if row == "auto" else row, loaded.rows)
    with ConsoleReporter() as reporter:
        reporter.line(f"row    {chosen.id}: {reason}")
        outcome = smoke_room.run(loaded, chosen, reporter, stack_launcher(chosen, stack, reporter))
    if json:
        print_json(outcome.to_dict())
    else:
        for answer in outcome.answers:
            console.rule(f"{answer.mode}: {answer.question}", align="left", style="dim")
            console.print(answer.text, markup=False, soft_wrap=True)
        shown = table("mode", "tokens", "rollout against recompute", "")
        for mode in outcome.modes:
            shown.add_row(mode.name, str(mode.tokens), f"{mode.mismatches} differ", styled(mode.verdict))
        console.print()
        console.print(shown)
    raise typer.Exit(0 if outcome.equal else 1)
