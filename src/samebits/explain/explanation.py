"""What an explanation says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from samebits.explain.birth import Birth
from samebits.explain.conditions import Condition, flips
from samebits.explain.differing import Differing


@dataclass(kw_only=True, slots=True)
class Explanation:
    """From the differing token to the op, and what that op's bits depend on."""

    run: str
    same_kit: bool
    """Whether the kit that ran is this one."""
    token: Differing
    as_recorded: dict[str, bool] = field(default_factory=dict)
    """By side: whether the traced call gave every logprob of the round as it was recorded."""
    tokens_as_recorded: bool = False
    """Whether the repeated rollout drew the recorded tokens."""
    notes: list[str] = field(default_factory=list)
    birth: Birth | None = None
    conditions: list[Condition] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        if self.birth is None:
            return "The difference did not come back."
        first = self.birth.first
        where = "" if first.layer is None else f"layer {first.layer}, "
        return (
            f"Token {self.token.position} of trajectory {self.token.trajectory}, round {self.token.round}: "
            f"the first op that differs between rollout and {self.token.other} is {where}{first.op}, "
            f"at position {self.birth.position}."
        )

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-ready object."""
        return {
            "run": self.run,
            "sameKit": self.same_kit,
            "token": self.token.to_dict(),
            "asRecorded": {**self.as_recorded, "tokens": self.tokens_as_recorded},
            "notes": self.notes,
            "sentence": self.sentence,
            "birth": None if self.birth is None else self.birth.to_dict(),
            "conditions": [condition.to_dict() for condition in self.conditions],
            "flips": flips(self.conditions),
            "seconds": f"{self.seconds:.1f}",
        }
