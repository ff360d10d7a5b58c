"""Model families, each written once over an op set, and the folders in which their weights travel."""

from __future__ import annotations

from samebits.models.dense import Dense
from samebits.models.family import Cache, Decoder, OpenFolder, Weights
from samebits.models.folder import open_decoder, open_folder, save_folder
from samebits.models.seeded import seeded_config, seeded_weights

__all__ = [
    "Cache",
    "Decoder",
    "Dense",
    "OpenFolder",
    "Weights",
    "open_decoder",
    "open_folder",
    "save_folder",
    "seeded_config",
    "seeded_weights",
]
