"""Recipes: what one certification runs and what it must show."""

from samebits.recipe.files import digest, find, known, load, parse
from samebits.recipe.model import (
    Actor,
    Certification,
    DenseShape,
    Engine,
    Exclusion,
    Model,
    Recipe,
    Workload,
)
from samebits.recipe.sampling import CONFORMING

__all__ = [
    "CONFORMING",
    "Actor",
    "Certification",
    "DenseShape",
    "Engine",
    "Exclusion",
    "Model",
    "Recipe",
    "Workload",
    "digest",
    "find",
    "known",
    "load",
    "parse",
]
