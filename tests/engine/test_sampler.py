from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from samebits.engine.native import sampler

LOGITS = np.array([0.0, 2.0, -1.0, 1.0, 3.5, -np.inf, 0.5, 2.0])


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def philox4x64(counter, key):
    """Philox4x64-10 written from the paper (Salmon et al., SC 2011, section 3.3): the first word of one block."""
    mask = 2**64 - 1
    a, b, c, d = (counter >> shift & mask for shift in (0, 64, 128, 192))
    left, right = key & mask, key >> 64
    for _ in range(10):
        first, second = 0xD2E7470EE14C6C93 * a, 0xCA5A826395121157 * c
        a, b, c, d = second >> 64 ^ b ^ left, second & mask, first >> 64 ^ d ^ right, first & mask
        left, right = left + 0x9E3779B97F4A7C15 & mask, right + 0xBB67AE8584CAA73B & mask
    return a


def test_the_papers_own_known_answer():
    assert philox4x64(0, 0) == 0x16554D9ECA36314C


@pytest.mark.parametrize(("seed", "index"), [(0, 0), (5, 3), (2**63 - 1, 4095)])
def test_uniform_is_53_bits_of_the_block_that_seed_and_index_name(seed, index):
    # numpy counts up before its first block
    assert sampler.uniform(seed, index) == (philox4x64(index + 1, seed) >> 11) / 2**53


def test_one_by_one_and_at_once_are_the_same_numbers():
    assert sampler.uniforms(9, 50).tolist() == [sampler.uniform(9, index) for index in range(50)]


def test_uniforms_are_multiples_of_2_to_the_minus_53_below_one():
    numbers = sampler.uniforms(1, 1000)
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert (numbers * 2**53 == np.floor(numbers * 2**53)).all()


def test_streams_of_different_seeds_share_nothing():
    numbers = np.concatenate([sampler.uniforms(seed, 1000) for seed in range(20)])
    assert len(set(numbers.tolist())) == 20_000


def test_streams_of_neighbouring_seeds_are_not_correlated():
    first, second = sampler.uniforms(1, 20_000), sampler.uniforms(2, 20_000)
    assert abs(stats.pearsonr(first, second).statistic) < 4 / np.sqrt(20_000)


@pytest.mark.parametrize(
    ("number", "token"),
    [
        (0.0, 1),  # token 0 has no mass
        (0.25, 1),
        (np.nextafter(0.5, 0), 1),
        (0.5, 2),  # the running sum must exceed u, not reach it
        (0.75, 4),
        (1 - 2**-53, 4),
    ],
)
def test_edges_of_the_inverse_cdf(number, token):
    running = np.cumsum([0.0, 2.0, 1.0, 0.0, 1.0, 0.0])
    assert sampler.choose(running, np.array([number])).tolist() == [token]


def test_a_product_that_rounds_up_to_the_total_takes_the_last_token_with_mass():
    running = np.array([0.5, 1.5, 3.0, 3.0])  # 3 (1 − 2^-54) rounds to 3
    assert (1 - 2**-54) * 3.0 == 3.0
    assert sampler.choose(running, np.array([1.0])).tolist() == [2]


def test_impossible_tokens_are_never_drawn():
    assert sampler.draw(LOGITS, samples=100_000, seed=4)[5] == 0


def test_draws_are_the_samples_of_one_request():
    counts = np.zeros(len(LOGITS), dtype=int)
    for index in range(500):
        counts[sampler.sample(LOGITS, seed=11, index=index)] += 1
    assert counts.tolist() == sampler.draw(LOGITS, samples=500, seed=11).tolist()


def test_draws_follow_the_softmax():
    counts = sampler.draw(LOGITS, samples=200_000, seed=20251130)
    possible = softmax(LOGITS) > 0
    result = stats.chisquare(counts[possible], 200_000 * softmax(LOGITS)[possible])
    assert result.pvalue > 0.01


def test_draws_over_a_wide_vocabulary_follow_the_softmax():
    logits = np.random.default_rng(0).normal(scale=2.5, size=5000).astype(np.float32).astype(np.float64)
    counts = sampler.draw(logits, samples=200_000, seed=3)
    expected = 200_000 * softmax(logits)
    order = np.argsort(-expected)
    edges = np.searchsorted(np.cumsum(expected[order]), np.linspace(0, 200_000, 101)[1:-1])
    observed, wanted = (np.add.reduceat(values[order], np.unique([0, *edges])) for values in (counts, expected))
    assert stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 0.01


def test_the_test_would_notice_a_tempered_sampler():
    counts = sampler.draw(LOGITS / 1.05, samples=200_000, seed=20251130)
    possible = softmax(LOGITS) > 0
    assert stats.chisquare(counts[possible], 200_000 * softmax(LOGITS)[possible]).pvalue < 1e-6


@pytest.mark.parametrize("logits", [[np.nan, 0.0], [np.inf, 0.0], [-np.inf, -np.inf]])
def test_no_distribution(logits):
    with pytest.raises(FloatingPointError, match=r"^the largest logit is (nan|inf|-inf)$"):
        sampler.sample(np.array(logits), seed=1, index=0)


def test_greedy_takes_the_first_of_the_largest():
    assert sampler.greedy(np.array([1.0, 3.0, 3.0, 2.0])) == 1
