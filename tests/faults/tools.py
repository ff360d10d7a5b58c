"""How a fault gets into a process: attributes are wrapped, and the policy version in force is looked up."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRATCH = Path("/nowhere")
"""A folder that all processes of one run share; the fault's own side channel."""


def use_scratch(folder: Path) -> None:
    """For the processes forked from here on."""
    global SCRATCH  # noqa: PLW0603 - inherited by fork, which is the point
    SCRATCH = folder


def around(owner: Any, name: str, change: Callable[..., Any]) -> None:
    """``owner.name(…)`` becomes ``change(what it was, …)``."""
    old = getattr(owner, name)

    @functools.wraps(old)
    def instead(*arguments: Any, **named: Any) -> Any:
        return change(old, *arguments, **named)

    setattr(owner, name, instead)


def actor_version() -> Callable[[], int]:
    """Tells the policy version of the call that the actor is answering."""
    from samebits.actor.sequence import Sequence  # noqa: PLC0415

    seen = [0]

    def note(old: Any, calls: Any, method: str, version: int) -> None:
        seen[0] = version
        old(calls, method, version)

    around(Sequence, "expect", note)
    return lambda: seen[0]
