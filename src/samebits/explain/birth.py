"""From a differing logprob back to the op in which the difference was born: nothing but digests is looked at.

The walk starts at the row that predicts the token.  The first op whose row differs got equal rows from the ops before
it, so it is where the difference was born, unless it is one that reads other rows: then the keys and values that it
read may have differed already, and the walk goes on at the first of those rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from samebits.errors import MachineError
from samebits.traced import ForwardShape, Traced, TracedOp

_LAYER = re.compile(r"model\.layers\.(\d+)\.")
_KEYS_AND_VALUES: Final = (".self_attn.rotary_emb.k", ".self_attn.v_proj")
"""What the attention of a dense layer reads of other rows; families without these read what the layer computed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpRow:
    """One op at one position, on both sides."""

    op: str
    left: str | None
    right: str | None
    left_by: str
    right_by: str

    @property
    def is_comparable(self) -> bool:
        """Whether both sides computed it."""
        return self.left is not None and self.right is not None

    @property
    def differs(self) -> bool:
        """Whether both computed it, and not alike."""
        return self.is_comparable and self.left != self.right

    @property
    def layer(self) -> int | None:
        """Of the model; None outside its layers."""
        found = _LAYER.match(self.op)
        return int(found.group(1)) if found else None

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-ready object."""
        return {
            "op": self.op,
            "layer": self.layer,
            "left": self.left,
            "right": self.right,
            "equal": not self.differs if self.is_comparable else None,
            "leftBy": self.left_by,
            "rightBy": self.right_by,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Birth:
    """The first op that gave different rows for equal ones."""

    position: int
    """Of the row: that of the token before the differing one, or an earlier one whose keys or values it read."""
    first: OpRow
    rows: list[OpRow]
    """Every op at that position, in order."""
    mixes: bool
    """Whether it reads other rows: then it cannot be computed again from its own row alone."""
    left_shape: ForwardShape | None
    right_shape: ForwardShape | None

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-ready object."""
        return {
            "position": self.position,
            "first": self.first.to_dict(),
            "shapes": {"left": _shape(self.left_shape), "right": _shape(self.right_shape)},
            "ops": [row.to_dict() for row in self.rows],
        }


def find_birth(left: Traced, right: Traced, token: int) -> Birth:
    """Where the difference in the logprob of the token at position ``token`` comes from.

    Raises:
        MachineError: no op differs: the traces are not of what was recorded.
    """
    pairs = _paired(left, right)
    found = _walk(pairs, token - 1, len(pairs))
    if found is None:
        raise MachineError(
            f"trace up to position {token}",
            found="the same digests on both sides, op by op",
            accepted="an op whose row differs",
            next_step="The difference did not come back: it does not depend on tokens, weights and batches alone.",
        )
    position, place = found
    rows = [_row(pair, position) for pair in pairs]
    return Birth(
        position=position,
        first=rows[place],
        rows=[row for row in rows if row.left is not None or row.right is not None],
        mixes=pairs[place][0].mixes,
        left_shape=left.shape_at(position),
        right_shape=right.shape_at(position),
    )


_Pair = tuple[TracedOp, TracedOp]


def _paired(left: Traced, right: Traced) -> list[_Pair]:
    """Ops that both sides have, in the left one's order."""
    others = {op.name: op for op in right.ops}
    return [(op, others[op.name]) for op in left.ops if op.name in others]


def _walk(pairs: list[_Pair], position: int, limit: int) -> tuple[int, int] | None:
    """Position and place of the op where the difference at ``position`` was born, among the first ``limit`` ops."""
    place = next((at for at in range(limit) if _row(pairs[at], position).differs), None)
    if place is None:
        return None
    op = pairs[place][0]
    if op.mixes:
        read = _read_by(pairs, place)
        for earlier in range(position):
            at = next((at for at in read if _row(pairs[at], earlier).differs), None)
            if at is not None:
                return _walk(pairs, earlier, at + 1)
    return position, place


def _read_by(pairs: list[_Pair], place: int) -> list[int]:
    """Places of the ops of the same layer whose rows the mixing op at ``place`` may read."""
    layer = _LAYER.match(pairs[place][0].name)
    before = [at for at in range(place) if layer is not None and pairs[at][0].name.startswith(layer.group())]
    cached = [at for at in before if pairs[at][0].name.endswith(_KEYS_AND_VALUES)]
    return cached or before


def _row(pair: _Pair, position: int) -> OpRow:
    left, right = pair
    return OpRow(
        op=left.name,
        left=left.at(position),
        right=right.at(position),
        left_by=left.implementation,
        right_by=right.implementation,
    )


def _shape(shape: ForwardShape | None) -> dict[str, int] | None:
    if shape is None:
        return None
    return {"tokens": shape.tokens, "sequences": shape.sequences, "rows": shape.rows, "start": shape.start}
