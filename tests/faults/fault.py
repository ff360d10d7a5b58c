"""What a fault is, and what must catch it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from warm import Patch, unchanged


class Catcher(Protocol):
    """What must catch a fault."""

    @property
    def name(self) -> str:
        """For the table."""

    def caught(self, outcome: Outcome) -> bool:
        """Whether it did."""


@dataclass(frozen=True)
class Outcome:
    """How a run with a fault ended."""

    error: Mapping[str, str] | None = None
    """What the run raised."""
    reasons: tuple[str, ...] = ()
    """Checks that did not pass, in the findings' words."""
    verdict: str = ""
    verified: int | None = None
    """Exit code of ``verify`` on the signed certificate."""
    replay: Mapping[str, Any] | None = None
    """What a replay of every trajectory found."""
    crashed: str = ""
    """The run ended in something nobody named: a hole, whatever the fault."""

    @property
    def what(self) -> str:
        """In one line."""
        if self.crashed:
            return f"crashed: {self.crashed}"
        if self.error:
            return f"{self.error['error']}: {self.error['field']}: found {self.error['found']}"
        if self.reasons:
            return self.reasons[0]
        if self.replay and self.replay["differing"]:
            return f"replay: {self.replay['first']}"
        return self.verdict or "nothing"


@dataclass(frozen=True)
class Check:
    """A check of the oracle that fails or is vacuous; the certificate says so and verifies as such."""

    name: str

    def caught(self, outcome: Outcome) -> bool:
        return outcome.verified == 1 and any(reason.startswith(f"{self.name}: ") for reason in outcome.reasons)


@dataclass(frozen=True)
class Refused:
    """An error of the group ``group`` about the field ``field``, a pattern; no certificate comes of the run."""

    group: str
    field: str

    @property
    def name(self) -> str:
        return f"{self.group}: {self.field}"

    def caught(self, outcome: Outcome) -> bool:
        error = outcome.error
        return error is not None and error["error"] == self.group and bool(re.fullmatch(self.field, error["field"]))


@dataclass(frozen=True)
class Replayed:
    """The run passes and verifies: only executing it again shows the fault."""

    name: str = "replay"

    def caught(self, outcome: Outcome) -> bool:
        return outcome.verified == 0 and outcome.replay is not None and outcome.replay["differing"] > 0


def nothing() -> None:
    """A process left as it is."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """``patches`` go into workers by side and arm, ``parent`` into the parent; ``recipe_text`` and ``row_text`` change
    the recipe and the row.

    ``between`` changes the run folder after the measuring, when the run has been interrupted and will be resumed.
    """

    name: str
    by: Catcher
    recipe: str = "dense"
    patches: Mapping[tuple[str, str], Patch] = field(default_factory=dict)
    parent: Patch = nothing
    recipe_text: Callable[[str], str] = unchanged
    row_text: Callable[[str], str] = unchanged
    between: Callable[[Path], None] | None = None
    needs_replay: bool = False


def engine(patch: Patch) -> dict[tuple[str, str], Patch]:
    """Into the aligned engine."""
    return {("engine", "aligned"): patch}


def actor(patch: Patch) -> dict[tuple[str, str], Patch]:
    """Into the aligned actor."""
    return {("actor", "aligned"): patch}


def everywhere(patch: Patch) -> dict[tuple[str, str], Patch]:
    """Into every worker."""
    return {(side, arm): patch for side in ("engine", "actor") for arm in ("aligned", "control")}
