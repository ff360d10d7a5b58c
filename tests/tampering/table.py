"""The table's shape: a name, what is done, and how verification must end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tampering.genuine import Genuine

CERTIFICATE, FILES, SOURCES, FINDINGS, REVOCATION, INPUT = (
    "signature and format",
    "files",
    "recipe and row",
    "findings",
    "revocation",
    "bad input",
)
"""The steps of verification in their order; last, what ends before the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One act of tampering.

    ``step`` is the first that must fail, ``says`` its whole message up to the next step, or the message up to
    ``; accepted`` where that is a list: digests as ``<sha256>``, the test's folder as ``.``.
    """

    name: str
    act: Callable[[Genuine], object]
    step: str
    says: str
    exit_code: int = 2


def case(name: str, act: Callable[[Genuine], object], step: str, says: str) -> Case:
    """A row of the table."""
    return Case(name=name, act=act, step=step, says=says)
