"""The oracle's own arithmetic against numpy, scipy and exact fractions."""

from __future__ import annotations

import hashlib
import json
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from samebits import bits
from samebits.bits import Bits
from samebits.oracle import columns
from samebits.oracle.chi_square import goodness_of_fit, survival
from samebits.oracle.compare import Agreement, Pair, ulp_distance
from samebits.oracle.digests import SIDES, SideDigests
from samebits.oracle.findings import Mismatch
from samebits.oracle.model_facts import layers, vocab_size
from samebits.oracle.observe import Divergence, Informativeness, decimal_text, largest_magnitude
from samebits.oracle.prefetch import prefetched
from samebits.oracle.sampling import nonconforming
from samebits.recipe import CONFORMING, Model


def patterns(*values: float) -> Bits:
    return bits.from_float32(np.array(values, dtype=np.float32))


def located(index: int) -> Mismatch:
    return Mismatch(round=0, trajectory=0, position=index, token=0, patterns={})


# Chi-square


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 62, 63, 1000, 4095])
@pytest.mark.parametrize("share", [0.2, 0.9, 1.0, 1.1, 1.5, 3.0])
def test_survival_is_scipys(degrees: int, share: float) -> None:
    expected = stats.chi2.sf(share * degrees, degrees)
    assert survival(share * degrees, degrees) == pytest.approx(expected, rel=1e-11, abs=1e-300)


def test_survival_of_nothing_is_certain() -> None:
    assert survival(0.0, 5) == 1.0


def test_goodness_of_fit_is_scipys_where_nothing_is_pooled() -> None:
    probabilities, draws = [0.1, 0.2, 0.3, 0.4], [95, 230, 290, 385]
    fit = goodness_of_fit(probabilities, draws)
    expected = stats.chisquare(draws, [1000 * one for one in probabilities])
    assert (fit.statistic, fit.p_value) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-12)
    assert (fit.bins, fit.draws, fit.impossible) == (4, 1000, 0)


def test_rare_tokens_are_pooled() -> None:
    # Of 1000 draws the last four tokens expect 2 each: together one bin of 8.
    probabilities, draws = [0.5, 0.492, *[0.002] * 4], [500, 490, 4, 3, 2, 1]
    fit = goodness_of_fit(probabilities, draws)
    expected = stats.chisquare([500, 490, 10], [500, 492, 8])
    assert (fit.bins, fit.statistic) == (3, pytest.approx(expected.statistic, rel=1e-12))


def test_a_pool_that_is_still_rare_joins_the_rarest_bin() -> None:
    fit = goodness_of_fit([0.6, 0.397, 0.003], [600, 396, 4])
    expected = stats.chisquare([600, 400], [600, 400])
    assert (fit.bins, fit.statistic) == (2, pytest.approx(expected.statistic, abs=1e-12))


def test_one_bin_tests_nothing() -> None:
    assert (goodness_of_fit([1.0], [1000]).bins, goodness_of_fit([1.0], [1000]).p_value) == (1, 1.0)


def test_draws_of_impossible_tokens_are_counted() -> None:
    assert goodness_of_fit([0.5, 0.5, 0.0], [500, 490, 10]).impossible == 10


# Comparison


@pytest.mark.parametrize(
    ("left", "right", "distance"),
    [
        (0x0000_0000, 0x8000_0000, 1),  # +0.0 and -0.0
        (0xBF80_0000, 0xBF80_0001, 1),
        (0x3F80_0000, 0x3F7F_FFFF, 1),
        (0x8000_0001, 0x0000_0001, 3),  # the two smallest subnormals, with both zeros between them
        (0xFF7F_FFFF, 0x7F7F_FFFF, 2 * 0x7F7F_FFFF + 1),  # all of fp32
    ],
)
def test_ulp_distance(left: int, right: int, distance: int) -> None:
    one, other = np.array([left], dtype=np.uint32), np.array([right], dtype=np.uint32)
    assert ulp_distance(one, other).tolist() == ulp_distance(other, one).tolist() == [distance]


def test_a_pair_counts_what_differs_and_what_is_not_finite() -> None:
    pair = Pair()
    pair.add_equal(10)
    left = np.array([0xBF80_0000, 0x0000_0000, 0x7FC0_0000, 0xFF80_0000, 0xBF80_0000], dtype=np.uint32)
    right = np.array([0xBF80_0000, 0x8000_0000, 0x7FC0_0000, 0xBF80_0000, 0xBF80_0007], dtype=np.uint32)
    pair.add(left, right, located)
    assert (pair.compared, pair.mismatches, pair.non_finite, pair.max_ulp) == (15, 3, 2, 7)
    assert pair.first is not None
    assert pair.first.position == 1


def test_the_first_mismatch_stays_the_first() -> None:
    pair, agreement = Pair(), Agreement()
    for shift in (3, 0):
        left = np.arange(8, dtype=np.uint32)
        right = left.copy()
        right[shift] ^= 1
        pair.add(left, right, located)
        agreement.add([left, left, right], located)
    assert (pair.first, pair.mismatches) == (located(3), 2)
    assert (agreement.first, agreement.mismatches, agreement.compared) == (located(3), 2, 16)


def test_a_token_counts_once_however_many_sides_stray() -> None:
    agreement = Agreement()
    agreement.add([np.array([1], np.uint32), np.array([2], np.uint32), np.array([3], np.uint32)], located)
    assert (agreement.compared, agreement.mismatches, agreement.non_finite) == (1, 1, 0)


# Digests


def test_shared_digests_part_where_the_sides_do() -> None:
    running = SideDigests()
    random = np.random.default_rng(0)
    kept: dict[str, list[Bits]] = {side: [] for side in SIDES}
    for step in range(6):
        common = random.integers(0, 2**32, 50, dtype=np.uint32)
        block = dict.fromkeys(SIDES, common)
        if step == 2:
            block["train"] = common ^ np.uint32(1)
        if step == 4:
            block["recompute"] = block["train"] = common[::2].copy()
            block["prefill"] = common[:0]
        running.add(block)
        for side in SIDES:
            kept[side].append(block[side])
    assert running.hexdigests() == {side: bits.digest(np.concatenate(kept[side])) for side in SIDES}


def test_a_side_without_patterns_has_no_digest() -> None:
    running = SideDigests()
    some = patterns(-1.0)
    running.add({"rollout": some, "recompute": some, "train": some, "prefill": some[:0]})
    assert running.hexdigests() == dict.fromkeys(SIDES[:3], hashlib.sha256(some.tobytes()).hexdigest())


# Observations


def test_entropy_is_the_same_in_any_order_and_any_batches() -> None:
    some = patterns(*-np.random.default_rng(0).exponential(2.0, 5000))
    whole, pieces = Informativeness(), Informativeness()
    whole.add(some, largest_magnitude(some))
    for piece in np.array_split(some[::-1].copy(), 7):
        pieces.add(piece, largest_magnitude(piece))
    exact = sum(Fraction(-float(value)) for value in bits.to_float32(some)) / 5000
    assert whole.mean_entropy == pieces.mean_entropy
    assert abs(whole.mean_entropy - exact) < Fraction(1, 2**20)


def test_only_finite_logprobs_and_none_of_absurd_size_enter_the_entropy() -> None:
    found = Informativeness()
    some = patterns(-1.0, math.nan, -math.inf, -1e30)
    found.add(some, largest_magnitude(some))
    assert (found.tokens, found.mean_entropy) == (2, Fraction(1 + 2047, 2))


def test_no_tokens_no_entropy() -> None:
    found = Informativeness()
    found.add(patterns(), 0)
    assert (found.mean_entropy, found.distinct_patterns()) == (None, (0, 0))


def test_distinct_patterns_tell_zeros_apart() -> None:
    found = Informativeness()
    some = patterns(0.0, -0.0, -1.0, -1.0)
    found.add(some, largest_magnitude(some))
    assert found.distinct_patterns() == (3, 4)


@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.5, -2.0])
def test_k3_and_probability_difference(delta: float) -> None:
    left, right = patterns(-3.0), patterns(-3.0 + delta)
    found = Divergence()
    found.add(left, right)
    d = float(bits.to_float32(right)[0]) + 3.0
    exact = sum(Fraction(d) ** power / math.factorial(power) for power in range(2, 40))
    assert found.k3_sum == pytest.approx(float(exact), rel=1e-9)
    difference = abs(math.exp(-3.0 + d) - math.exp(-3.0))
    assert found.max_probability_difference == pytest.approx(difference, rel=1e-9)


def test_divergence_of_equal_sides_is_exactly_nothing() -> None:
    assert Divergence().to_dict(5) == {"k3Kl": "0", "maxProbabilityDifference": "0"}
    assert Divergence().to_dict(0) == {"k3Kl": None, "maxProbabilityDifference": None}


@pytest.mark.parametrize(
    ("value", "text"),
    [(Fraction(1, 3), "0.3333"), (Fraction(-1, 3), "-0.3333"), (Fraction(5), "5.0000"), (Fraction(1, 20000), "0.0000")],
)
def test_decimal_text(value: Fraction, text: str) -> None:
    assert decimal_text(value, 4) == text


# Columns


def test_integer_columns_with_nulls_never_become_floats() -> None:
    column = pa.array([None, 0xFFFF_FFFF, 0x7FC0_0001, None, 7], pa.uint32())
    found, there = columns.values(column, np.uint32), columns.valid(column)
    assert found[there].tolist() == [0xFFFF_FFFF, 0x7FC0_0001, 7]
    assert found.dtype == np.uint32


@pytest.mark.parametrize("start", [0, 1, 7, 8, 9, 16])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40])
def test_bitmaps_at_any_offset(start: int, count: int) -> None:
    random = np.random.default_rng(start * 100 + count)
    mask = random.integers(0, 2, 64).astype(bool)
    column = pa.array(np.arange(64, dtype=np.uint32), mask=~mask).slice(start, count)
    booleans = pa.array(mask).slice(start, count)
    wanted = mask[start : start + count]
    assert columns.booleans(booleans).tolist() == columns.valid(column).tolist() == wanted.tolist()
    assert columns.is_valid_where(column, booleans)
    for place in range(count):
        other = wanted.copy()
        other[place] ^= True
        assert not columns.is_valid_where(column, pa.array(other))


def test_a_column_without_nulls_is_valid_everywhere() -> None:
    column = pa.array([1, 2], pa.uint32())
    assert columns.is_valid_where(column, pa.array([True, True]))
    assert not columns.is_valid_where(column, pa.array([True, False]))


@pytest.mark.parametrize("start", [0, 3])
def test_same_bytes(start: int) -> None:
    one = pa.array([9, 9, 9, 1, None, 3], pa.uint32()).slice(start, 3)
    assert columns.are_same_bytes(one, pa.array(one.to_pylist(), pa.uint32()))
    assert not columns.are_same_bytes(one, pa.array([*one.to_pylist()[:2], 4], pa.uint32()))
    assert columns.are_same_bytes(one.slice(0, 0), one.slice(1, 0))
    assert not columns.are_same_bytes(one, one.slice(0, 2))


def test_strangers_have_no_place() -> None:
    found, places = columns.codes(pa.array(["b", "a", "x", "b"]).dictionary_encode(), ("a", "b"))
    assert places[found].tolist() == [1, 0, -1, 1]


# Small things


def test_prefetching_keeps_order_and_raises_where_the_source_does() -> None:
    def source():
        yield from range(5)
        raise KeyError("the sixth")

    items = prefetched(source())
    assert [next(items) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError, match="the sixth"):
        next(items)


def test_the_recipes_conforming_parameters_conform_here_too() -> None:
    assert nonconforming('{"n": 1}')[0] == "temperature is not stated"
    assert nonconforming(json.dumps(dict(CONFORMING), sort_keys=True)) == ()


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"temperature": NaN}', "[" * 100_000])
def test_sampling_that_is_no_json_object(text: str) -> None:
    assert nonconforming(text) != ()


def test_smollm2_is_known() -> None:
    model = Model(family="dense", source="smollm2-135m")
    assert (vocab_size(model), layers(model)) == (49_152, 30)
