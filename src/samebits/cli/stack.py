"""``samebits stack``: the environment of a row's workers, where it is not the kit's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samebits import pins
from samebits.certify.reporter import Reporter
from samebits.cli.output import console, print_json
from samebits.cli.reporter import ConsoleReporter
from samebits.environment import Launcher, OwnEnvironment, StackEnvironment
from samebits.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(name="stack")(stack)


def stack(
    row: Annotated[str, typer.Argument(help="Row of the matrix whose workers have an environment of their own.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Install the pinned environment of a row's workers, once, and say which interpreter holds it.

    vLLM brings requirements of its own and never lives in the kit's environment. `certify` does this by itself when
    it has to; `--stack PYTHON` takes another interpreter instead, which is checked against the row's pins.
    """
    loaded, _ = pins.load(row)
    with ConsoleReporter() as reporter:
        python = pins.stack.install(loaded, reporter.line)
    if json:
        print_json({"row": loaded.id, "python": str(python)})
    else:
        console.print(f"row {loaded.id}: {python}", soft_wrap=True)


def stack_launcher(row: pins.Row, python: Path | None, reporter: Reporter) -> Launcher:
    """How the row's processes are started: on its stack, installed if need be, or in the kit's own environment.

    Raises:
        InputError: ``python`` for a row that has no stack, or no interpreter there.
        MachineError: the stack cannot be installed.
    """
    if row.stack is None:
        if python is not None:
            raise InputError(
                "--stack",
                found=str(python),
                accepted=f"nothing: row {row.id} runs in the kit's own environment",
                next_step="Leave --stack out.",
            )
        return OwnEnvironment()
    if python is not None and not python.is_file():
        raise InputError(
            "--stack",
            found=str(python),
            accepted="a Python interpreter",
            next_step=f"Leave --stack out to install the row's own, or see `samebits stack {row.id}`.",
        )
    interpreter = python or pins.stack.install(row, reporter.line)
    return StackEnvironment(interpreter.absolute(), pins.stack.link_folder())
