"""Rule 6 for the sampler alone: draws of the engine's own sampler against the exact softmax of the same logits."""

from __future__ import annotations

import math
from typing import Any, Final

from samebits.certify.arm import Arm

LOGITS: Final = tuple(4.0 * math.sin(1.7 * index) for index in range(64))
"""64 fixed logits; probabilities from about 1e-5 to 0.06."""
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
