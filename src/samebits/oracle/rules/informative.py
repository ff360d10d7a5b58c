"""Rule 12: the logprobs say something. All else here is observation, never the gate."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from samebits.oracle.findings import Check
from samebits.oracle.measured import Measured
from samebits.oracle.model_facts import vocab_size
from samebits.oracle.observe import decimal_text
from samebits.recipe import Recipe

ENTROPY_SHARE: Final = Decimal("0.95")
"""Of ``ln V``: above it, logits are so flat that equal logprobs would prove little."""
PATTERNS_AT_LEAST: Final = 2
PLACES: Final = 6


def check(measured: Measured, recipe: Recipe) -> list[Check]:
    """Entropy below its bound, and more than one pattern."""
    informative = measured.tokens.arms["aligned"].informative
    entropy, bound = informative.mean_entropy, _bound(recipe)
    distinct, among = informative.distinct_patterns()
    shown = "none" if entropy is None else decimal_text(entropy, PLACES)
    return [
        Check(
            name="informative.entropy",
            rule=12,
            status="passed" if entropy is not None and entropy <= bound else "vacuous",
            exercised=informative.tokens,
            detail=f"mean entropy {shown} nats; at most {decimal_text(bound, PLACES)} (0.95 ln V) says anything",
        ),
        Check(
            name="informative.patterns",
            rule=12,
            status="passed" if distinct >= PATTERNS_AT_LEAST else "vacuous",
            exercised=distinct,
            detail=f"{distinct} distinct patterns among {among} tokens",
        ),
    ]


def observations(measured: Measured, recipe: Recipe) -> dict[str, Any]:
    """The findings' ``observations``."""
    aligned = measured.tokens.arms["aligned"]
    entropy = aligned.informative.mean_entropy
    distinct, among = aligned.informative.distinct_patterns()
    return {
        "tokens": {arm: found.response_tokens for arm, found in measured.tokens.arms.items()},
        "promptTokens": {arm: found.prompt_tokens for arm, found in measured.tokens.arms.items()},
        "trajectories": {arm: found.count for arm, found in measured.trajectories.items()},
        "finishReasons": {
            arm: dict(sorted(found.finish_reasons.items())) for arm, found in measured.trajectories.items()
        },
        "rewardMean": {
            arm: decimal_text(found.reward_sum / found.count, PLACES) if found.count else None
            for arm, found in measured.trajectories.items()
        },
        "entropy": {
            "mean": None if entropy is None else decimal_text(entropy, PLACES),
            "bound": decimal_text(_bound(recipe), PLACES),
            "estimate": "mean of -logprob over sampled tokens at temperature 1, in nats",
        },
        "distinctPatterns": {"count": distinct, "among": among},
        "divergence": {
            arm: {
                f"{left}/{right}": pair.divergence.to_dict(pair.compared) for (left, right), pair in found.pairs.items()
            }
            for arm, found in measured.tokens.arms.items()
        },
        "counters": {
            f"{arm}.{name}": max(values) if name.endswith(("_max", "_running", "_sizes")) else sum(values)
            for (arm, name), values in sorted(measured.counters.items())
        },
    }


def _bound(recipe: Recipe) -> Fraction:
    # Decimal's logarithm is correctly rounded, so it is the same on every machine.
    return Fraction(ENTROPY_SHARE * Decimal(vocab_size(recipe.model)).ln())
