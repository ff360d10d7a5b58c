"""All faults, and the clean twin of each recipe."""

from __future__ import annotations

from dataclasses import dataclass

from . import in_actor, in_ds4, in_engine, in_evidence, in_parent
from .fault import Fault, Outcome


@dataclass(frozen=True)
class Passes:
    """What a clean twin must do."""

    name: str = "nothing: it passes"

    def caught(self, outcome: Outcome) -> bool:
        return outcome.verified == 0 and not outcome.reasons


TWINS = [
    Fault(name="clean twin, dense", by=Passes()),
    Fault(name="clean twin, DeepSeek-V4 with FP8", by=Passes(), recipe="ds4"),
    Fault(
        name="clean twin, DeepSeek-V4 in bf16",
        by=Passes(),
        recipe="ds4",
        recipe_text=in_ds4.without_fp8,
        row_text=in_ds4.fp8_not_asked,
    ),
]
FAULTS = [*in_engine.FAULTS, *in_actor.FAULTS, *in_parent.FAULTS, *in_evidence.FAULTS, *in_ds4.FAULTS]
