"""The ``samebits`` command and how its errors reach the terminal."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import typer
from rich.console import Console

from samebits import __version__
from samebits.cli import certify, doctor, keys, lock, show, smoke, verify
from samebits.cli.output import EPILOG, print_json
from samebits.errors import SamebitsError

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it (128 + SIGINT); Typer makes it of KeyboardInterrupt."""

CLICK_ERROR: Final[Any] = typer.BadParameter.__mro__[2]
"""Click's base of all usage errors. Typer carries a click of its own and publishes only this descendant of it."""

app = typer.Typer(
    name="samebits",
    help="Prove that a reinforcement-learning stack computes the same bits when it generates, recomputes and trains.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (certify, smoke, keys, verify, show, doctor, lock):
    module.register(app)


@app.callback(invoke_without_command=True)
def root(version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True)) -> None:
    """Options of the command itself."""
    if version:
        typer.echo(f"samebits {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command; never ends in a traceback for an error that was raised on purpose."""
    try:
        code = app(standalone_mode=False)
    except SamebitsError as error:
        _explain(error)
        code = error.exit_code
    except CLICK_ERROR as error:
        error.show()
        code = 2
    except BrokenPipeError:
        # The reader went away (``| head``); Python must not complain again while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    if code == INTERRUPTED:
        Console(stderr=True).print("Interrupted. Workers are stopped; finished phases are kept.", style="yellow")
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: SamebitsError) -> None:
    if "--json" in sys.argv:
        print_json(error.to_dict())
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]{error.group}[/]: {error.field}", markup=True)
    for label, text in (("found", error.found), ("accepted", error.accepted), ("next", error.next_step)):
        console.print(f"  {label:<9} {text}", markup=False)
