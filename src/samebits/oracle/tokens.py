"""One pass over the token rows: everything that any rule wants to know of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from samebits.bits import Bits
from samebits.hashing import sha256_json
from samebits.oracle.compare import Agreement, Locate, Pair
from samebits.oracle.digests import SIDES, SideDigests
from samebits.oracle.evidence import EvidenceReader
from samebits.oracle.findings import Comparison, Faults, Mismatch
from samebits.oracle.layout import ARMS, SIDE_COLUMNS, TOKEN_COLUMNS, Block, Layout
from samebits.oracle.observe import INFINITY, Informativeness, largest_magnitude
from samebits.oracle.prefetch import prefetched

PAIRS: Final = (("rollout", "recompute"), ("recompute", "train"), ("rollout", "train"), ("rollout", "prefill"))
THREE: Final = ("rollout", "recompute", "train")


@dataclass(slots=True)
class ArmTokens:
    """The tokens of one arm."""

    prompt_tokens: int = 0
    response_tokens: int = 0
    highest_id: int = 0
    """Of all token ids, as unsigned: a negative one is high."""
    rounds: dict[int, int] = field(default_factory=dict)
    """Response tokens by round."""
    digests: dict[int, dict[str, str]] = field(default_factory=dict)
    """By round, then by side; a round whose rows are not together has the digests of its last rows."""
    three: Agreement = field(default_factory=Agreement)
    pairs: dict[tuple[str, str], Pair] = field(default_factory=lambda: {pair: Pair() for pair in PAIRS})
    informative: Informativeness = field(default_factory=Informativeness)

    def comparison(self, arm: str, pair: tuple[str, str]) -> Comparison:
        """The oracle over ``pair``, with one digest per side over the digests of its rounds."""
        found = self.pairs[pair]
        left, right = pair
        return Comparison(
            name=f"{left}/{right}",
            arm=arm,
            left=left,
            right=right,
            compared=found.compared,
            mismatches=found.mismatches,
            non_finite=found.non_finite,
            max_ulp=found.max_ulp,
            first=found.first,
            left_digest=self._digest(left),
            right_digest=self._digest(right),
        )

    def _digest(self, side: str) -> str:
        return sha256_json([[round_, sides[side]] for round_, sides in self.digests.items() if side in sides])


@dataclass(kw_only=True, slots=True)
class Tokens:
    """The whole table."""

    arms: dict[str, ArmTokens]
    alignment: Faults
    masking: Faults


def measure(reader: EvidenceReader) -> Tokens:
    """Streams the tokens table once, reading ahead; memory does not grow with its rows."""
    layout = Layout(reader)
    arms = {arm: ArmTokens() for arm in ARMS}
    current: tuple[str, int] | None = None
    digests = SideDigests()
    for block in _blocks(reader, layout):
        if current != (block.arm, block.round):
            if current is not None:
                arms[current[0]].digests[current[1]] = digests.hexdigests()
            current, digests = (block.arm, block.round), SideDigests()
        _add(arms[block.arm], block, digests)
    if current is not None:
        arms[current[0]].digests[current[1]] = digests.hexdigests()
    layout.finish()
    return Tokens(arms=arms, alignment=layout.alignment, masking=layout.masking)


def _blocks(reader: EvidenceReader, layout: Layout) -> Iterator[Block]:
    for columns in prefetched(reader.distinct("tokens", TOKEN_COLUMNS, SIDE_COLUMNS, codes_for=("arm",))):
        yield from layout.blocks(columns)


def _add(arm: ArmTokens, block: Block, digests: SideDigests) -> None:
    # Comparing whole columns under the mask is cheaper than packing them first; most blocks agree.
    count = int(np.count_nonzero(block.mask))
    rollout = _packed(block, "rollout")
    largest = largest_magnitude(rollout)
    sound = rollout.size == count and largest < INFINITY
    equal = {side for side in SIDES if sound and _agrees(block, side)}
    arm.highest_id = max(arm.highest_id, int(block.token_id.view(np.uint32).max()))
    arm.response_tokens += count
    arm.prompt_tokens += block.mask.size - count
    arm.rounds[block.round] = arm.rounds.get(block.round, 0) + count
    arm.informative.add(rollout, largest)
    digests.add({side: rollout if side in equal else _packed(block, side) for side in SIDES})
    for (left, right), pair in arm.pairs.items():
        if left in equal and right in equal:
            pair.add_equal(count)
        else:
            rows = np.flatnonzero(block.mask & block.valid[left] & block.valid[right])
            pair.add(block.bits[left][rows], block.bits[right][rows], _locator(block, rows))
    if equal.issuperset(THREE):
        arm.three.add_equal(count)
    else:
        rows = np.flatnonzero(block.mask & block.valid["rollout"] & block.valid["recompute"] & block.valid["train"])
        arm.three.add([block.bits[side][rows] for side in THREE], _locator(block, rows))


def _agrees(block: Block, side: str) -> bool:
    """Whether ``side`` has exactly the rollout's patterns at every counted token of the block."""
    if block.valid[side] is not block.mask:
        return False
    ours, theirs = block.bits[side], block.bits["rollout"]
    return ours is theirs or not np.any((ours != theirs) & block.mask)


def _packed(block: Block, side: str) -> Bits:
    same = block.valid[side] is block.mask
    return block.bits[side][block.mask if same else block.mask & block.valid[side]]


def _locator(block: Block, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Locate:
    def locate(index: int) -> Mismatch:
        row = int(rows[index])
        return Mismatch(
            round=block.round,
            trajectory=int(block.trajectory[row]),
            position=int(block.position[row]),
            token=int(block.token_id[row]),
            patterns={side: int(block.bits[side][row]) if block.valid[side][row] else None for side in SIDES},
        )

    return locate
