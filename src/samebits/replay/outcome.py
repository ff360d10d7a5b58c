"""What a replay found, and how much of the certificate it has looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from samebits.replay.chance import Chance, Place
from samebits.replay.differences import Difference


@dataclass(kw_only=True, slots=True)
class Outcome:
    """Filled while the replay goes on."""

    certificate_sha256: str
    seed: int
    same_kit: bool
    """Whether the kit that ran is this one; if not, a difference may be the kit's and not the evidence's."""
    sampled: list[Place]
    trajectories: int
    """Of all rounds of the aligned arm."""
    rounds: int
    """How many of its rounds were executed again, from the first on."""
    rounds_in_all: int
    chances: list[Chance]
    compared: dict[str, int] = field(default_factory=dict)
    """Tokens by side, and ``refits``: digests of tensors."""
    differences: list[Difference] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 if nothing differs, 1 if something does."""
        return 1 if self.differences else 0

    def count(self, side: str, tokens: int) -> None:
        """``tokens`` more were compared."""
        self.compared[side] = self.compared.get(side, 0) + tokens

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-ready object."""
        return {
            "certificateSha256": self.certificate_sha256,
            "verdict": "differs" if self.differences else "confirmed",
            "exitCode": self.exit_code,
            "seed": str(self.seed),
            "sameKit": self.same_kit,
            "coverage": {
                "sampled": [{"round": round_, "trajectory": index} for round_, index in self.sampled],
                "trajectories": self.trajectories,
                "rounds": self.rounds,
                "roundsInAll": self.rounds_in_all,
                "compared": dict(sorted(self.compared.items())),
            },
            "chances": [chance.to_dict() for chance in self.chances],
            "differences": [difference.to_dict() for difference in self.differences],
            "seconds": f"{self.seconds:.1f}",
        }
