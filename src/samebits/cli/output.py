"""What every command prints alike."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from samebits.certificate import Signed

EPILOG = (
    "Exit codes of runs: 0 passed, 1 measured and did not pass, 2 refused or bad input, 3 the machine or a dependency "
    "failed. Of verify: 0 valid and passed, 1 valid but not passed, 2 invalid."
)

STYLES = {
    "passed": "bold green",
    "equal": "green",
    "different": "red",
    "failed": "bold red",
    "vacuous": "bold yellow",
    "over_budget": "bold yellow",
    "refused": "yellow",
    "not_run": "yellow",
    "not_applicable": "dim",
}

console = Console(highlight=False)


def print_json(value: Any) -> None:
    """Print ``value`` as indented JSON on standard output, and nothing else with it."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def styled(word: str) -> str:
    """A verdict in its colour."""
    style = STYLES.get(word)
    return f"[{style}]{word}[/]" if style else word


def table(*columns: str, title: str | None = None) -> Table:
    """A table in the kit's one look."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def print_signed(signed: Signed) -> None:
    """Where the certificate is, which key signed it, and the command that verifies it, ready to be pasted."""
    if signed.key_created:
        console.print(f"made a signing key on first use: {signed.private_path}", soft_wrap=True)
    console.print(f"certificate  {signed.certificate}", soft_wrap=True)
    console.print(f"verify it    {_command()} verify {signed.certificate} --key {signed.public_path}", soft_wrap=True)


def _command() -> str:
    """The running program: nox installs it into an environment that is not on the user's PATH."""
    script = Path(sys.executable).with_name("samebits")
    return os.path.relpath(script) if script.exists() else "samebits"
