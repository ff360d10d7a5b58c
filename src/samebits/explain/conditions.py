"""The shape condition: among how many rows, or in whose company, the bits of the op in question flip.

An op that reads nothing but its own row is computed again alone, on that row among more and more of its neighbours.
One that reads other rows (attention) cannot be: there the whole sequence is computed again in more and more company.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final, Literal

from samebits.certify.arm import Arm
from samebits.engine.protocol import Request, WholeSequence
from samebits.explain.birth import Birth
from samebits.traced import Target, Traced

SIZES: Final = (1, 2, 8, 32, 64, 128, 256, 257, 512)
"""Numbers of rows; kernels choose their shape by such steps."""

Like = Literal["left", "right", "neither"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """The row in question under one shape."""

    how: str
    """For instance ``the op alone, in the engine``, ``prefill with 3 others``, ``rollout with 3 others``."""
    rows: int
    """Of that call: of the op alone, or of the forward."""
    sequences: int | None
    """Of that forward; None for the op alone."""
    digest: str | None
    """None where the row was not reached: a rollout in other company drew other tokens."""
    like: Like | None

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-ready object."""
        return asdict(self)


def classify(birth: Birth, digest: str | None) -> Like | None:
    """Whose bits ``digest`` is."""
    if digest is None:
        return None
    return "left" if digest == birth.first.left else "right" if digest == birth.first.right else "neither"


def of_reruns(birth: Birth, how: str, traced: Traced) -> list[Condition]:
    """The op alone, by number of rows."""
    return [
        Condition(how=how, rows=one.rows, sequences=None, digest=one.digest, like=classify(birth, one.digest))
        for one in traced.reruns
    ]


def in_company(
    arm: Arm,
    birth: Birth,
    *,
    requests: Sequence[Request],
    wholes: Sequence[WholeSequence],
    target: Target,
    version: int,
) -> list[Condition]:
    """The engine's prefill, then its rollout, of the sequence alone and with others; counts double up to all."""
    mine = wholes[target.sequence]
    cut = WholeSequence(token_ids=mine.token_ids[: target.token + 1], prompt_length=mine.prompt_length)
    others = [one for at, one in enumerate(wholes) if at != target.sequence]
    alone = Target(sequence=0, token=target.token)
    found = []
    for count in _doubling(len(others)):
        traced = arm.engine.trace([cut, *others[:count]], version, alone).traced
        found.append(_condition(birth, f"prefill with {count} others", traced))
    mates = [one for at, one in enumerate(requests) if at != target.sequence]
    for count in _doubling(len(mates)):
        call = arm.engine.trace([requests[target.sequence], *mates[:count]], version, alone)
        drawn = [*requests[target.sequence].prompt_token_ids, *call.trajectories[0].token_ids][: target.token]
        is_same = drawn == mine.token_ids[: target.token]
        found.append(_condition(birth, f"rollout with {count} others", call.traced if is_same else None))
    return found


def _doubling(most: int) -> list[int]:
    counts, count = [0], 1
    while count < most:
        counts.append(count)
        count *= 2
    return [*counts, most] if most else counts


def _condition(birth: Birth, how: str, traced: Traced | None) -> Condition:
    shape = None if traced is None else traced.shape_at(birth.position)
    if traced is None or shape is None:
        return Condition(how=how, rows=0, sequences=0, digest=None, like=None)
    op = next((op for op in traced.ops if op.name == birth.first.op), None)
    digest = None if op is None else op.at(birth.position)
    return Condition(how=how, rows=shape.tokens, sequences=shape.sequences, digest=digest, like=classify(birth, digest))


def flips(conditions: Sequence[Condition]) -> list[str]:
    """Where the bits change, in words: only within one way of computing."""
    found = []
    for one, other in pairwise(conditions):
        if _way(one) == _way(other) and None not in (one.digest, other.digest) and one.digest != other.digest:
            found.append(f"{_way(one)}: between {one.rows} and {other.rows} rows")
    return found


def _way(condition: Condition) -> str:
    return condition.how.partition(" with ")[0]
