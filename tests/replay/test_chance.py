from __future__ import annotations

from fractions import Fraction

import pytest

from samebits.replay.chance import Chance, chances, sample


@pytest.mark.parametrize(
    ("forged", "sampled", "among", "probability", "text"),
    [
        (1, 6, 33, Fraction(2, 11), "0.1818"),
        (4, 6, 33, 1 - Fraction(29 * 28 * 27 * 26 * 25 * 24, 33 * 32 * 31 * 30 * 29 * 28), "0.5711"),
        (1, 33, 33, Fraction(1), "1.0000"),
        (30, 4, 33, Fraction(1), "1.0000"),  # fewer sound ones than are drawn
        (1, 1, 20_000, Fraction(1, 20_000), "0.0000"),  # rounded down
    ],
)
def test_the_chance_is_that_of_drawing_without_replacement(
    forged: int, sampled: int, among: int, probability: Fraction, text: str
) -> None:
    chance = Chance(forged=forged, sampled=sampled, among=among)
    assert chance.probability == probability
    assert chance.to_dict() == {"forged": forged, "sampled": sampled, "among": among, "probability": text}


def test_one_a_hundredth_and_a_tenth() -> None:
    assert [chance.forged for chance in chances(5, 330)] == [1, 4, 33]
    assert [chance.forged for chance in chances(5, 7)] == [1]


def test_the_sample_is_of_all_rounds_and_repeats_with_its_seed() -> None:
    drawn = sample({0: 3, 2: 4}, 4, seed=7)
    assert drawn == sample({0: 3, 2: 4}, 4, seed=7)
    assert drawn != sample({0: 3, 2: 4}, 4, seed=8)
    assert sample({0: 3, 2: 4}, 99, seed=7) == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1), (2, 2), (2, 3)]


def test_over_all_seeds_each_trajectory_is_drawn_alike() -> None:
    counts = [0] * 7
    for seed in range(7000):
        for round_, index in sample({0: 3, 2: 4}, 2, seed):
            counts[index if round_ == 0 else 3 + index] += 1
    assert all(1850 < count < 2150 for count in counts), counts
