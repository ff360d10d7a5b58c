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


def load(path_or_id: str | Path) -> tuple[Recipe, bytes]:
    """The recipe that ``path_or_id`` names, and the bytes of its file: they are a subject of the certificate.

    Raises:
        InputError: not found, unreadable, not TOML, not a recipe; found by an id that the file itself does not say.
    """
    path = find(path_or_id)
    content = schema.read(path)
    recipe = parse(content, source=path.name)
    if str(path_or_id) == path.stem and recipe.id != path.stem:
        raise InputError(
            f"{path.name}: id",
            found=repr(recipe.id),
            accepted=repr(path.stem),
            next_step="Name the file after the recipe's id.",
        )
    return recipe, content


def parse(content: bytes, *, source: str) -> Recipe:
    """The recipe in ``content``, the bytes of a file called ``source``, for instance the copy beside a certificate.

    Raises:
        InputError: not TOML, or not a recipe.
    """
    return schema.parse_toml(Recipe, content, source=source)


def digest(content: bytes) -> str:
    """The recipe digest: sha256 of the file's bytes, as ``sha256sum`` prints it."""
    return hashing.sha256_bytes(content)


def known() -> list[str]:
    """Ids of all recipes that :func:`find` would find."""
    return schema.identifiers("recipes")
