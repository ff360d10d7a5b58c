"""Rule 6 for the sampler alone: draws of the engine's own sampler against the exact softmax of the same logits."""

from __future__ import annotations

import math
from typing import Any, Final

from samebits.certify.arm import Arm

LOGITS: Final = (4.1, *(0.5 * math.sin(1.7 * index) for index in range(1, 64)))
"""One token with nearly half of the probability, 63 with the rest: where a wrong temperature shows most.

The noncentrality of the chi-square is draws × δ² × the logits' variance for a temperature of 1 + δ, and two levels half
a distribution apart have the largest variance.  So 0.98 is found, 0.999 is not: only a replay draws each token again.
"""
DRAWS: Final = 200_000
SEED: Final = 20_251_130


def exercise(arm: Arm) -> list[dict[str, Any]]:
    """Rows of the ``sampler`` table."""
    counts = arm.engine.draw(LOGITS, DRAWS, SEED)
    largest = max(LOGITS)
    weights = [math.exp(logit - largest) for logit in LOGITS]
    total = math.fsum(weights)
    return [
        {"token_id": token, "probability": weight / total, "draws": count}
        for token, (weight, count) in enumerate(zip(weights, counts, strict=True))
    ]
