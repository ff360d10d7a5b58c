"""``samebits explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from samebits import pins
from samebits.certify.arm import ArmName
from samebits.cli.output import console, print_json, table
from samebits.cli.reporter import ConsoleReporter
from samebits.cli.stack import stack_launcher
from samebits.explain import Explanation, OpRow
from samebits.explain import explain as execute
from samebits.explain.conditions import flips


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(name="explain")(explain)


def explain(
    run: Annotated[Path, typer.Argument(help="The folder of a run that did not pass, runs/ID.")],
    arm: Annotated[ArmName, typer.Option(help="Whose first differing token is explained.")] = "aligned",
    row: Annotated[str | None, typer.Option(help="Row to run on, by id or path. Default: the run's own.")] = None,
    stack: Annotated[
        Path | None, typer.Option(help="Python interpreter that holds the row's stack, where it has one of its own.")
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(help="Write a script that shows the fault with vLLM alone, where its rollout and prefill differ."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the op in which a run's first differing token was born. Needs a machine like the run's.

    The evidence names the token. Its policy version is made again by repeating the recorded steps, the round's rollout
    by repeating its requests; then both sides are traced, and a table shows op by op whether the row's bits agree. The
    op that differs first is computed again in other shapes. Exit code: 0 it was found, 2 there is nothing to explain,
    3 this machine does not give the recorded bits.
    """
    chosen, _ = pins.load(row if row is not None else str(run / "certificate.evidence" / "row.toml"))
    with ConsoleReporter() as reporter:
        found = execute(
            run, arm=arm, script=script, row=chosen, launcher=stack_launcher(chosen, stack, reporter), reporter=reporter
        )
    if json:
        print_json(found.to_dict())
    else:
        _show(found)


def _show(found: Explanation) -> None:
    said = found.to_dict()
    head = table("", "")
    token = said["token"]
    head.add_row(
        "token",
        f"{token['arm']}, round {token['round']}, trajectory {token['trajectory']}, position {token['position']}",
    )
    head.add_row("bits", ", ".join(f"{side} {one}" for side, one in token["bits"].items() if one))
    head.add_row(
        "again", ", ".join(f"{side} {'as' if same else 'NOT as'} recorded" for side, same in said["asRecorded"].items())
    )
    for note in found.notes:
        head.add_row("note", escape(note))
    if not found.same_kit:
        head.add_row("kit", "another one ran: the difference may be the kit's")
    console.print(head)
    if found.birth is None:
        return
    birth, other = found.birth, found.token.other
    ops = table(f"op at position {birth.position}", "rollout", other, "")
    for one in birth.rows:
        ops.add_row(one.op.removeprefix("model."), one.left or "", one.right or "", _mark(one, birth.first))
    console.print(ops)
    shapes = table("", "rollout", other)
    left, right = said["birth"]["shapes"]["left"] or {}, said["birth"]["shapes"]["right"] or {}
    for name in ("tokens", "sequences", "rows", "start"):
        shapes.add_row(f"{name} of the forward", str(left.get(name, "")), str(right.get(name, "")))
    shapes.add_row("computed by", escape(birth.first.left_by), escape(birth.first.right_by))
    console.print(shapes)
    if found.conditions:
        varied = table(birth.first.op, "rows", "bits", "like")
        words = {"left": "the rollout", "right": f"the {other}", "neither": "neither", None: "not reached"}
        for condition in found.conditions:
            varied.add_row(condition.how, str(condition.rows), condition.digest or "", words[condition.like])
        console.print(varied)
    for flip in flips(found.conditions):
        console.print(f"flips  {flip}")
    console.print(f"[bold]{escape(found.sentence)}[/]", soft_wrap=True)


def _mark(one: OpRow, first: OpRow) -> str:
    if not one.is_comparable:
        return "[dim]one side only[/]"
    if not one.differs:
        return "[green]equal[/]"
    return "[bold red]different, first[/]" if one is first else "[red]different[/]"
