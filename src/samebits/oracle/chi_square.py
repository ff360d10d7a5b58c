"""Pearson's chi-square test of draws against known probabilities, without scipy.

The kit must verify certificates on machines that have nothing but numpy, so the survival function is here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

EXPECTED_AT_LEAST = 5.0
"""Bins with fewer expected draws are pooled; below that the statistic is not chi-square distributed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GoodnessOfFit:
    """The test's outcome; ``impossible`` draws fell on tokens of probability 0."""

    draws: int
    bins: int
    statistic: float
    p_value: float
    impossible: int


def goodness_of_fit(probabilities: Sequence[float], draws: Sequence[int]) -> GoodnessOfFit:
    """Tests ``draws`` [V] against ``probabilities`` [V]; bins that expect fewer than 5 draws are pooled.

    With fewer than two bins left nothing was tested: ``bins`` says so and the p-value is 1.
    """
    total = sum(draws)
    expected: list[float] = []
    observed: list[int] = []
    rest_expected, rest_observed = [], 0
    for probability, count in zip(probabilities, draws, strict=True):
        if probability * total >= EXPECTED_AT_LEAST:
            expected.append(probability * total)
            observed.append(count)
        else:
            rest_expected.append(probability * total)
            rest_observed += count
    rest = math.fsum(rest_expected)
    if rest >= EXPECTED_AT_LEAST or not expected:
        expected.append(rest)
        observed.append(rest_observed)
    elif rest_expected:
        smallest = expected.index(min(expected))
        expected[smallest] += rest
        observed[smallest] += rest_observed
    impossible = sum(count for probability, count in zip(probabilities, draws, strict=True) if probability <= 0)
    if len(expected) < 2:  # noqa: PLR2004 - one bin always fits
        return GoodnessOfFit(draws=total, bins=len(expected), statistic=0.0, p_value=1.0, impossible=impossible)
    statistic = math.fsum((seen - due) ** 2 / due for seen, due in zip(observed, expected, strict=True))
    return GoodnessOfFit(
        draws=total,
        bins=len(expected),
        statistic=statistic,
        p_value=survival(statistic, len(expected) - 1),
        impossible=impossible,
    )


def survival(statistic: float, degrees: int) -> float:
    """The probability that chi-square with ``degrees`` degrees of freedom exceeds ``statistic``.

    The regularised upper gamma function Q(k/2, x/2) is a finite sum for whole k (Abramowitz and Stegun 26.4.4 and
    26.4.5): all terms are positive, so nothing cancels; logarithms keep them from overflowing.
    """
    if statistic <= 0:
        return 1.0
    y = statistic / 2
    odd = degrees % 2
    exponents = [index - 0.5 if odd else float(index) for index in range(odd, (degrees + 1) // 2)]
    terms = [math.exp(exponent * math.log(y) - y - math.lgamma(exponent + 1)) for exponent in exponents]
    return min(1.0, math.fsum([math.erfc(math.sqrt(y)), *terms] if odd else terms))
