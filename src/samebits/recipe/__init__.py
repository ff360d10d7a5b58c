"""Recipes: what one certification runs and what it must show."""

from samebits.recipe.checks import ALIGNED
from samebits.recipe.files import digest, find, known, load, parse
from samebits.recipe.model import (
    Actor,
    ActorSettings,
    Baseline,
    Certification,
    DenseShape,
    EngineSettings,
    Exclusion,
    MegatronActor,
    Model,
    NativeSettings,
    Recipe,
    Refusal,
    VllmSettings,
    Workload,
)
from samebits.recipe.refused import config_bytes
from samebits.recipe.sampling import CONFORMING
from samebits.recipe.variants import with_actor

__all__ = [
    "ALIGNED",
    "CONFORMING",
    "Actor",
    "ActorSettings",
    "Baseline",
    "Certification",
    "DenseShape",
    "EngineSettings",
    "Exclusion",
    "MegatronActor",
    "Model",
    "NativeSettings",
    "Recipe",
    "Refusal",
    "VllmSettings",
    "Workload",
    "config_bytes",
    "digest",
    "find",
    "known",
    "load",
    "parse",
    "with_actor",
]
