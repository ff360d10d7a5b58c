"""Exact sampling at temperature 1: a token depends on its own logits, its request's seed and its index alone.

Random numbers are counter-based (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): token ``i`` of
a response takes the ``i``-th block of the Philox stream keyed by the seed, so no draw depends on how many were made
before it, for whom, or in which batch.  Pure numpy, one row at a time: rows cannot meet.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_BLOCK = 4  # 64-bit words that one Philox4x64 counter value gives; the first is used
_UNIT = 2.0**-53


def uniform(seed: int, index: int) -> float:
    """The number in [0, 1), a multiple of 2^-53, that decides token ``index`` of the request with ``seed``."""
    word = np.random.Philox(key=seed, counter=index).random_raw()
    return (int(word) >> 11) * _UNIT


def uniforms(seed: int, count: int) -> Floats:
    """``uniform(seed, i)`` for i in 0 … count − 1, float64 [count]."""
    words = np.random.Philox(key=seed, counter=0).random_raw(_BLOCK * count)[::_BLOCK]
    return (words >> np.uint64(11)).astype(np.float64) * _UNIT


def cumulative(logits: Floats) -> Floats:
    """Running sums of the unnormalised softmax, float64 [V]; the last one is the normaliser.

    Raises:
        FloatingPointError: a logit is NaN or +inf, or all are −inf: there is no distribution to draw from.
    """
    top = logits.max()
    if not np.isfinite(top):
        raise FloatingPointError(f"the largest logit is {top}")
    return np.cumsum(np.exp(logits - top))


def choose(running: Floats, numbers: Floats) -> npt.NDArray[np.int64]:
    """By inverse CDF: for each number u the first token whose running sum exceeds u times the total, int64.

    A token of probability 0 leaves the running sum as it was and is never the first to exceed anything.  Where u times
    the total rounds up to the total, the last token of positive probability is taken.
    """
    total = running[-1]
    last = np.searchsorted(running, total, side="left")
    found: npt.NDArray[np.int64] = np.minimum(np.searchsorted(running, numbers * total, side="right"), last)
    return found


def sample(logits: Floats, *, seed: int, index: int) -> int:
    """Token ``index`` of the response with ``seed``, drawn from the softmax of raw ``logits``, float64 [V]."""
    return int(choose(cumulative(logits), np.array([uniform(seed, index)]))[0])


def greedy(logits: Floats) -> int:
    """The first largest logit.  For smoke only: a greedy rollout is never certified (rule 6)."""
    return int(logits.argmax())


def draw(logits: Floats, *, samples: int, seed: int) -> npt.NDArray[np.int64]:
    """How often each token comes in ``samples`` draws, int64 [V]: for the sampler's own chi-square test (rule 6)."""
    return np.bincount(choose(cumulative(logits), uniforms(seed, samples)), minlength=len(logits))
