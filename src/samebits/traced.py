"""What a traced forward looked like, as engine and actor report it: digests of rows, op by op, and no tensors.

Tracing watches one sequence of a call, up to one of its tokens.  Of every op the output's row at every position of that
sequence is digested, in the forward that computed it last before the token was drawn: what the token depends on.  So
one trace of each side is enough to walk back from a differing logprob to the op in which the difference was born.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

WIDTH: Final = 16
"""Characters of one row's digest (BLAKE2b of its bytes, 64 bits): enough to tell two rows apart, not to bind one."""
ABSENT: Final = "-" * WIDTH
"""Stands where a row was not computed by an op."""

LOGPROB: Final = "logprob"
"""The last op: raw logprobs, fp32, of the token that follows the row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Which sequence of a call is traced, up to which token."""

    sequence: int
    """Place in the call's list."""
    token: int
    """Position of the token whose logprob is in question; it is predicted from the row before it."""
    rerun: str = ""
    """An op whose row is to be computed again among other numbers of rows, if any."""
    row: int = -1
    """Position of that row."""
    sizes: list[int] = field(default_factory=list)
    """The numbers of rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForwardShape:
    """One forward, as far as shapes go."""

    tokens: int
    """Rows of all sequences together."""
    sequences: int
    rows: int
    """Of the traced sequence."""
    start: int
    """Position of the first of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedOp:
    """One op of the model, over all forwards."""

    name: str
    """After Hugging Face's modules: ``model.layers.3.self_attn.o_proj``; parts of what is fused have names of their
    own."""
    mixes: bool
    """Whether a row's result depends on rows of earlier positions: attention."""
    implementation: str
    """What computes it."""
    digests: str
    """:data:`WIDTH` characters for each position before the token, :data:`ABSENT` where there is none."""

    def at(self, position: int) -> str | None:
        """The digest at ``position``; None if the op computed no such row."""
        found = self.digests[WIDTH * position : WIDTH * (position + 1)]
        return found if found and found != ABSENT else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rerun:
    """The row in question, computed by one op alone among so many rows."""

    rows: int
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Traced:
    """One side of one sequence, up to one token."""

    ops: list[TracedOp]
    """In the order in which they ran."""
    forwards: list[ForwardShape]
    forward_of: list[int]
    """Per position: which of ``forwards`` computed it; −1 if none did."""
    reruns: list[Rerun] = field(default_factory=list)

    def shape_at(self, position: int) -> ForwardShape | None:
        """The forward that computed ``position``."""
        number = self.forward_of[position] if position < len(self.forward_of) else -1
        return self.forwards[number] if number >= 0 else None
