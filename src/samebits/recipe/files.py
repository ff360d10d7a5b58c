"""Recipes as files: found by id or path, read once, digested as bytes."""

from __future__ import annotations

from pathlib import Path

from samebits import hashing, schema
from samebits.errors import InputError
from samebits.recipe.model import Recipe


def find(path_or_id: str | Path) -> Path:
    """The file of the recipe that ``path_or_id`` names: a TOML file, or the id of one under ``recipes/``.

    Raises:
        InputError: no recipe has this id; names the nearest one and all others.
    """
    return schema.locate("recipes", path_or_id, field="recipe")


def load(path_or_id: str | Path) -> Recipe:
    """The recipe in the file that ``path_or_id`` names.

    Raises:
        InputError: not found, unreadable, not TOML, or not a recipe; an id that is not its file's name.
    """
    path = find(path_or_id)
    return parse(schema.read(path), source=path.name)


def parse(content: bytes, *, source: str) -> Recipe:
    """The recipe in ``content``, the bytes of a file called ``source``.

    Raises:
        InputError: not TOML, or not a recipe.
    """
    recipe = schema.parse_toml(Recipe, content, source=source)
    expected = source.removesuffix(".toml")
    if source.endswith(".toml") and recipe.id != expected:
        raise InputError(
            f"{source}: id",
            found=repr(recipe.id),
            accepted=repr(expected),
            next_step="Name the file after the recipe's id.",
        )
    return recipe


def digest(content: bytes) -> str:
    """The recipe digest: sha256 of the file's bytes, as ``sha256sum`` prints it."""
    return hashing.sha256_bytes(content)


def known() -> list[str]:
    """Ids of all recipes that :func:`find` would find."""
    return schema.identifiers("recipes")
