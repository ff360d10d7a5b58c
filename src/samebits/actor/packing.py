"""Which sequences share a packed forward: one way for the recompute, another for the training forward.

Rule 3 asks for two executions in different packings.  The recompute packs neighbours in request order; the training
forward deals the reversed order like cards, so sequences that were packed together are parted (as far as there are
packs to part them into) and every sequence sits at another row among other neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

Packing = list[list[int]]
"""Packs in the order in which they run; each lists trajectories, by request order, in the order of their rows."""


def recompute_packing(trajectories: int, pack: int) -> Packing:
    """Request order, ``pack`` at a time: 5 by 2 is [[0, 1], [2, 3], [4]]."""
    return [list(range(first, min(first + pack, trajectories))) for first in range(0, trajectories, pack)]


def train_packing(trajectories: int, pack: int) -> Packing:
    """Reversed request order dealt out to as few packs as hold it: 5 by 3 is [[4, 2, 0], [3, 1]]."""
    packs = -(-trajectories // pack)
    dealt = range(trajectories - 1, -1, -1)
    return [list(dealt[hand::packs]) for hand in range(packs)]


def pack_of_each(packing: Packing) -> list[int]:
    """The pack that holds each trajectory, in request order."""
    where = {trajectory: number for number, pack in enumerate(packing) for trajectory in pack}
    return [where[trajectory] for trajectory in sorted(where)]


def in_request_order(packing: Packing, packed: Sequence[Sequence[T]]) -> list[T]:
    """Undoes a packing: one value per trajectory, given per pack and row."""
    placed = {
        trajectory: value
        for pack, values in zip(packing, packed, strict=True)
        for trajectory, value in zip(pack, values, strict=True)
    }
    return [placed[trajectory] for trajectory in sorted(placed)]
