"""What the oracle has to know of a recipe's model: how many tokens and how many layers it has."""

from __future__ import annotations

from typing import Final

from samebits.recipe import Model

KNOWN: Final = {"smollm2-135m": {"vocab_size": 49_152, "layers": 30}}
"""Models that a recipe names without giving their shape (SmolLM2-135M: its ``config.json``)."""


def vocab_size(model: Model) -> int:
    """Number of coordinates of a distribution, ``V``."""
    shape = model.ds4 or model.shape
    return shape.vocab_size if shape else KNOWN[model.source]["vocab_size"]


def layers(model: Model) -> int:
    """Number of decoder layers; rule 3 probes each."""
    if model.ds4:
        return len(model.ds4.compress_ratios)
    return model.shape.num_hidden_layers if model.shape else KNOWN[model.source]["layers"]
