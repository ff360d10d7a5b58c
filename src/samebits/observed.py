"""What a forward pass decided and met, as engine and actor report it: small, and free of tensors.

A family's rules (which expert, which key, which scale) leave decisions that must be the same on both sides, and events
that show that the rules were needed (RFC WS2).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """All decisions of one kind in one layer."""

    layer: int
    what: str
    """For instance ``routes``, ``selection``, ``scales.attention``."""
    rows: int
    """Tokens that decided."""
    digest: str
    """sha256 over them, sequences in request order, tokens by position."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """How often something happened in one layer, or how far it went."""

    layer: int
    what: str
    value: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """One side of one round, over every token of every trajectory but its last: nothing is predicted from that one.

    Empty for a family that decides nothing.
    """

    decisions: list[Decision] = field(default_factory=list)
    counts: list[Event] = field(default_factory=list)
    """Sums over tokens: the same on both sides."""
    levels: list[Event] = field(default_factory=list)
    """Largest value in any one forward: differs with the packing."""
