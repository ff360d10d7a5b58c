"""Actor settings: gated, then parsed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from samebits.errors import GateError
from samebits.gate.settings import accepted_from_json, check
from samebits.recipe.model import Actor, ActorSettings, MegatronActor
from samebits.schema import parse

WHERE: Final = "actor"
MEGATRON: Final = "megatron"
"""The ``kind`` of an actor inside Megatron-core."""


AnySettings: TypeAlias = Actor | MegatronActor


def certified(settings: Mapping[str, Any], gate: Mapping[str, Any]) -> AnySettings:
    """``settings`` as the recipe's model of their kind, once the row's ``[gate.actor]`` table has passed them.

    Raises:
        GateError: a setting that the row does not accept, or one that defeats rule 3 on any row.
        InputError: an unknown or absurd setting, or a malformed gate table.
    """
    check(settings, accepted_from_json(gate, where=f"gate.{WHERE}"), where=WHERE)
    actor: AnySettings
    if settings.get("kind") == MEGATRON:
        actor = parse(MegatronActor, dict(settings), source=WHERE)
    else:
        actor = parse(Actor, dict(settings), source=WHERE)
    refuse_shared_sides(actor)
    return actor


def refuse_shared_sides(actor: ActorSettings) -> None:
    """Recompute and training forward stay two computations, whatever a row accepts (rule 3).

    Raises:
        GateError: one side would be reused for the other, or both would be packed alike.
    """
    if actor.force_on_policy_ratio:
        raise GateError(
            f"{WHERE}.force_on_policy_ratio",
            found=True,
            accepted=False,
            next_step="It takes the training forward's logprobs for the recompute's; leave it off.",
        )
    if actor.recompute_pack == actor.train_pack:
        raise GateError(
            f"{WHERE}.train_pack",
            found=f"{actor.train_pack}, the same as recompute_pack",
            accepted="another number than recompute_pack",
            next_step="Recompute and training forward must be packed differently; change one of the two.",
        )
