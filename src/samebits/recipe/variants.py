"""The same recipe with another kind of actor: a file of its own, so that the recipe in the evidence is what ran."""

from __future__ import annotations

from typing import Final

from samebits.errors import InputError
from samebits.recipe.files import known, load

NATIVE: Final = "native"
KINDS: Final = (NATIVE, "megatron")


def with_actor(path_or_id: str, kind: str) -> str:
    """The id or path of the recipe ``path_or_id`` with an actor of ``kind``: itself, or the one called ``ID-KIND``.

    Raises:
        InputError: no such kind, or no such recipe.
    """
    if kind not in KINDS:
        raise InputError("--actor", found=repr(kind), accepted=", ".join(KINDS), next_step="Use one of these kinds.")
    loaded, _ = load(path_or_id)
    if loaded.actor.kind == kind:
        return path_or_id
    if f"{loaded.id}-{kind}" in known():
        return f"{loaded.id}-{kind}"
    base = loaded.id.removesuffix(f"-{loaded.actor.kind}")
    if kind == NATIVE and base in known():
        return base
    of_kind = sorted(name for name in known() if load(name)[0].actor.kind == kind)
    raise InputError(
        "--actor",
        found=f"{kind!r} for {loaded.id}, whose actor is {loaded.actor.kind!r}",
        accepted=", ".join(of_kind),
        next_step="Name one of these recipes, or leave --actor out: a recipe states its own actor.",
    )
