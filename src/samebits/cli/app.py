"""The ``samebits`` command and how its errors reach the terminal."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import typer
from rich.console import Console
from rich.markup import escape

from samebits import __version__
from samebits.cli import adapt, certify, doctor, explain, images, keys, lock, replay, show, smoke, stack, verify
from samebits.cli.output import EPILOG, print_json
from samebits.errors import InputError, MachineError, SamebitsError

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it (128 + SIGINT); Typer makes it of KeyboardInterrupt."""

READER_GONE = 141
"""Exit code after the reader of the output went away, as shells have it (128 + SIGPIPE)."""

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
for module in (certify, smoke, keys, verify, replay, explain, show, doctor, lock, stack, adapt, images):
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
        code = _run()
    except BrokenPipeError:
        # Not 0: in ``samebits verify … | head`` under pipefail, nobody may take an unread report for a pass.
        _close_output()
        code = READER_GONE
    except OSError as error:
        code = _explain_machine(error)
    if code == INTERRUPTED:
        Console(stderr=True).print("Interrupted. Workers are stopped; finished phases are kept.", style="yellow")
    sys.exit(code if isinstance(code, int) else 0)


def _run() -> Any:
    try:
        return app(standalone_mode=False)
    except SamebitsError as error:
        _explain(error)
        return error.exit_code
    except CLICK_ERROR as error:
        return _explain_usage(error)


def _explain_usage(error: Any) -> int:
    if "--json" not in sys.argv:
        error.show()
        return InputError.exit_code
    command = error.ctx.command_path if error.ctx else "samebits"
    _explain(
        InputError(
            "command line",
            found=error.format_message(),
            accepted="what the command's help says",
            next_step=f"See: {command} --help",
        )
    )
    return InputError.exit_code


def _explain_machine(error: OSError) -> int:
    """A full disk or a folder without permission, anywhere: the system's word for it, and the file if it said one."""
    explained = MachineError(
        str(error.filename or "a file"),
        found=error.strerror or type(error).__name__,
        accepted="a disk with room and permission to write",
        next_step="Free space or change permissions; an unfinished run continues with samebits certify --resume RUN.",
    )
    try:
        _explain(explained)
    except OSError:  # it is the output itself that cannot be written
        _close_output()
        typer.echo(str(explained), err=True)
    return explained.exit_code


def _close_output() -> None:
    """Python must not complain about standard output again while it shuts down."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(error: SamebitsError) -> None:
    if "--json" in sys.argv:
        print_json(error.to_dict())
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]{error.group}[/]: {escape(error.field)}", markup=True)
    for label, text in (("found", error.found), ("accepted", error.accepted), ("next", error.next_step)):
        console.print(f"  {label:<9} {text}", markup=False)
