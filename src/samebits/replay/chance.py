"""Which trajectories are generated again, and how likely that finds a forged one."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Final

PLACES: Final = 4

Place = tuple[int, int]
"""Round and trajectory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chance:
    """That a sample of ``sampled`` of ``among`` trajectories has one of the ``forged`` ones in it."""

    forged: int
    sampled: int
    among: int

    @property
    def probability(self) -> Fraction:
        """1 − C(n − m, K) / C(n, K): the sample is drawn without replacement, after the evidence was signed."""
        return 1 - Fraction(comb(self.among - self.forged, self.sampled), comb(self.among, self.sampled))

    def to_dict(self) -> dict[str, int | str]:
        """The probability as a decimal, rounded down: it is never less than stated."""
        scaled = self.probability.numerator * 10**PLACES // self.probability.denominator
        text = f"{scaled // 10**PLACES}.{scaled % 10**PLACES:0{PLACES}d}"
        return {"forged": self.forged, "sampled": self.sampled, "among": self.among, "probability": text}


def chances(sampled: int, among: int) -> list[Chance]:
    """For one forged trajectory, one in a hundred and one in ten."""
    counts = dict.fromkeys((1, max(1, -(-among // 100)), max(1, -(-among // 10))))
    return [Chance(forged=count, sampled=sampled, among=among) for count in counts]


def sample(trajectories: Mapping[int, int], count: int, seed: int) -> list[Place]:
    """``count`` of all trajectories, fewer if there are not so many; ``trajectories`` says how many a round has."""
    places = [(round_, index) for round_, many in sorted(trajectories.items()) for index in range(many)]
    return sorted(random.Random(seed).sample(places, min(count, len(places))))  # noqa: S311 - reproducible on purpose
