"""What every command prints alike."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

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
