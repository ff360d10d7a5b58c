"""What executing again found to be otherwise than recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from samebits import bits

Patterns = Sequence[Sequence[int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One thing that the evidence records and the replay does not confirm."""

    where: str
    """For instance ``round 3, trajectory 1, position 70: train`` or ``version 4: lm_head.weight: sent``."""
    recorded: str
    found: str

    def __str__(self) -> str:
        return f"{self.where}: recorded {self.recorded}, found {self.found}"

    def to_dict(self) -> dict[str, str]:
        """As a JSON-ready object."""
        return asdict(self)


def of_values(where: str, recorded: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Difference]:
    """Names whose values differ."""
    for name in sorted(recorded.keys() | found.keys()):
        if recorded.get(name) != found.get(name):
            yield Difference(
                where=f"{where}: {name}", recorded=_shown(recorded.get(name)), found=_shown(found.get(name))
            )


def of_patterns(
    side: str, round_: int, starts: Mapping[int, int], recorded: Mapping[int, Sequence[int | None]], found: Patterns
) -> Iterator[Difference]:
    """The first differing token of each trajectory; ``found`` is in the order of ``recorded``.

    ``starts`` says where each trajectory's response begins.
    """
    for (trajectory, ours), theirs in zip(recorded.items(), found, strict=True):
        where = f"round {round_}, trajectory {trajectory}"
        if len(ours) != len(theirs):
            yield Difference(where=f"{where}: {side}", recorded=f"{len(ours)} tokens", found=f"{len(theirs)} tokens")
            continue
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if one != other:
                position = starts[trajectory] + place
                yield Difference(
                    where=f"{where}, position {position}: {side}",
                    recorded="nothing" if one is None else bits.to_hex(one),
                    found=bits.to_hex(other),
                )
                break


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value)
