"""What several parts of the table do to evidence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tampering.genuine import Genuine

Act = Callable[[Genuine], None]


Rows = list[dict[str, Any]]


def bytes_of(name: str, change: Callable[[bytes], bytes]) -> Act:
    """Changes the bytes of one file and nothing else."""
    return lambda genuine: (genuine.evidence / name).write_bytes(change((genuine.evidence / name).read_bytes()))


def instead(name: str, make: Callable[[Path], object]) -> Act:
    """Something else in the place of one file."""

    def act(genuine: Genuine) -> None:
        (genuine.evidence / name).unlink()
        make(genuine.evidence / name)

    return act


def sealed(act: Act) -> Act:
    """Does ``act`` and signs everything anew but the findings."""

    def sealed(genuine: Genuine) -> None:
        act(genuine)
        genuine.reseal()

    return sealed


def rows_of(table: str, change: Callable[[Rows], object]) -> Act:
    """Changes the rows of a table and signs everything anew but the findings."""
    return lambda genuine: genuine.rows(table, change)


def write(path: Path, content: bytes) -> None:
    """Writes a file and returns nothing."""
    path.write_bytes(content)


def setting(**values: Any) -> Callable[[Rows], None]:
    """Changes values of a table's first row."""
    return lambda rows: rows[0].update(values)


def lower_min_tokens(data: bytes) -> bytes:
    """The recipe file with the least number of tokens set to 1."""
    lines = data.split(b"\n")
    (index,) = [index for index, line in enumerate(lines) if line.startswith(b"min_tokens")]
    lines[index] = b"min_tokens = 1"
    return b"\n".join(lines)
