"""The command line: reads arguments, calls a room, prints a table or JSON, exits with the documented code."""

from samebits.cli.app import main

__all__ = ["main"]
