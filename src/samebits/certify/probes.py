"""Rule 3's probe: one ulp on one layer's input norm must show on both actor sides, layer by layer.

If it does not, that side did not run that layer: it was copied, cached or skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from samebits.actor.protocol import Tokens
from samebits.certify.arm import Arm


def exercise(
    arm: Arm,
    trajectories: Mapping[int, Tokens],
    version: int,
    live: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Rows of the ``probes`` table: patterns before and after, of every response token and layer.

    ``trajectories`` are some of one round, by their index in it.
    """
    rows: list[dict[str, Any]] = []
    layers = arm.actor_built.layers
    for layer in range(layers):
        live(f"probe: one ulp in the input norm of layer {layer + 1}/{layers}")
        probed = arm.actor.probe(layer, list(trajectories.values()), version)
        for place_in_call, (index, one) in enumerate(trajectories.items()):
            rows += [
                {
                    "layer": layer,
                    "trajectory": index,
                    "position": one.prompt_length + place,
                    "recompute_bits": probed.recompute[place_in_call][place],
                    "recompute_probed_bits": probed.recompute_probed[place_in_call][place],
                    "train_bits": probed.train[place_in_call][place],
                    "train_probed_bits": probed.train_probed[place_in_call][place],
                }
                for place in range(len(one.token_ids) - one.prompt_length)
            ]
    return rows
