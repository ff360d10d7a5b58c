"""Rule 1 while streaming: the token rows are exactly the trajectories, in order, prompt before response.

The tokens table is cut into *segments*, one per trajectory, and each segment is held against its row of the
trajectories table.  Both are streams in the same order, so one walk over both is enough.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from samebits.bits import Bits
from samebits.oracle.columns import Bools, Int32, are_same_bytes, booleans, codes, is_valid_where, valid, values
from samebits.oracle.digests import SIDES
from samebits.oracle.evidence import EvidenceReader
from samebits.oracle.findings import TOLD, Faults

ARMS: Final = ("aligned", "control")
TOKEN_COLUMNS: Final = (
    "arm",
    "round",
    "trajectory",
    "position",
    "token_id",
    "mask",
    *(f"{side}_bits" for side in SIDES),
)
SIDE_COLUMNS: Final = TOKEN_COLUMNS[-len(SIDES) :]


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Consecutive token rows [N] of one arm and round."""

    arm: str
    round: int
    trajectory: Int32
    position: Int32
    token_id: Int32
    mask: Bools
    bits: dict[str, Bits]
    """By side; what stands where ``valid`` is false means nothing.  The very array of the rollout where bytes agree."""
    valid: dict[str, Bools]
    """By side; the very array ``mask`` where a side has patterns for exactly the counted tokens."""


Keys = npt.NDArray[np.int64]
"""[N, 5]: arm, round, trajectory, and its prompt and response tokens by the trajectories table."""


class Layout:
    """Walks the tokens table, yields its blocks, and collects what is out of place."""

    def __init__(self, reader: EvidenceReader) -> None:
        self.alignment = Faults()
        self.masking = Faults()
        self._reader = reader
        self._expected = _TrajectoryCursor(reader)
        self._open: Keys = np.empty((0, 5), dtype=np.int64)
        # The trajectory that the last batch ended in, one row; none at the start and once lost.
        self._consumed = 0
        self._lost = False
        # After the first row that is not where it should be, every later one would be reported too.
        self._runs = 0
        # Changes of arm or round so far.

    def blocks(self, batch: Mapping[str, pa.Array]) -> Iterator[Block]:
        """Rows by column, which follow those of the previous call; equal sides may be one and the same array."""
        count = len(batch["arm"])
        if count == 0:
            return
        arm_codes, arms = codes(batch["arm"], ARMS)
        columns = {name: values(batch[name], np.int32) for name in ("round", "trajectory", "position", "token_id")}
        self._reader.check_rounds("tokens", columns["round"])
        mask = booleans(batch["mask"])
        sides = {side: batch[f"{side}_bits"] for side in SIDES}
        rollout = values(sides["rollout"], np.uint32)
        patterns, present = {"rollout": rollout}, dict[str, Bools]()
        for side, column in sides.items():
            twin = next((other for other in present if sides[other] is column), None)
            if twin is not None:
                patterns[side], present[side] = patterns[twin], present[twin]
                continue
            if side not in patterns:
                same = are_same_bytes(column, sides["rollout"])
                patterns[side] = rollout if same else values(column, np.uint32)
            present[side] = mask if is_valid_where(column, batch["mask"]) else valid(column)
        starts = self._segment_starts(arm_codes, arms, columns)
        found = np.stack(
            [arms[arm_codes[starts]], *(columns[name][starts] for name in ("round", "trajectory"))], axis=1
        )
        self._check_segments(starts, found, columns["position"][starts], mask, columns)
        self._check_patterns(mask, present)
        runs = _runs(starts, count, arm_codes, columns["round"])
        self._runs += len(runs) - 1
        self._reader.check_runs("tokens", self._runs)
        for low, high in runs:
            arm = int(arms[arm_codes[low]])
            if arm < 0:
                continue
            counted, first = mask[low:high], rollout[low:high]
            yield Block(
                arm=ARMS[arm],
                round=int(columns["round"][low]),
                trajectory=columns["trajectory"][low:high],
                position=columns["position"][low:high],
                token_id=columns["token_id"][low:high],
                mask=counted,
                bits={side: first if column is rollout else column[low:high] for side, column in patterns.items()},
                valid={side: counted if column is mask else column[low:high] for side, column in present.items()},
            )

    def finish(self) -> None:
        """After the last batch: the last trajectory ends here, and none may be left over."""
        if self._lost:
            return
        self._check_lengths(self._open, np.array([self._consumed])[: len(self._open)])
        left = self._expected.remaining()
        if left:
            self.alignment.add(f"{left} trajectories have no token rows", left)

    def _segment_starts(self, arm_codes: Int32, arms: Int32, columns: dict[str, Int32]) -> npt.NDArray[np.intp]:
        """Where a row does not simply continue the row before it."""
        position = columns["position"]
        jumps = np.empty(position.size, dtype=np.bool_)
        np.not_equal(np.subtract(position[1:], position[:-1]), 1, out=jumps[1:])
        jumps[1:] |= columns["trajectory"][1:] != columns["trajectory"][:-1]
        if columns["round"].min() != columns["round"].max():
            jumps[1:] |= columns["round"][1:] != columns["round"][:-1]
        if arms.size > 1:
            jumps[1:] |= arm_codes[1:] != arm_codes[:-1]
        first = [int(arms[arm_codes[0]]), int(columns["round"][0]), int(columns["trajectory"][0])]
        jumps[0] = self._open[:, :3].tolist() != [first] or int(position[0]) != self._consumed
        return np.flatnonzero(jumps)

    def _check_segments(
        self,
        starts: npt.NDArray[np.intp],
        found: npt.NDArray[np.int32],
        positions: Int32,
        mask: Bools,
        columns: dict[str, Int32],
    ) -> None:
        """The segments that start in this batch, ``found`` [N, 3], are the next rows of the trajectories table."""
        if self._lost:
            return
        expected = self._expected.take(starts.size)
        right = (found[: len(expected)] == expected[:, :3]).all(axis=1) & (positions[: len(expected)] == 0)
        good = int(np.argmin(right)) if not right.all() else len(expected)
        bounds = np.append(starts, mask.size)
        # One piece for the trajectory that the last batch ended in, then one for each that starts here.
        keys = np.concatenate([self._open, expected[:good]])
        earlier = np.zeros(len(keys), dtype=np.int64)
        earlier[: len(self._open)] = self._consumed
        rows = np.concatenate([bounds[:1][: len(self._open)], np.diff(bounds)[:good]])
        if good < starts.size:
            self._lost = True
            wanted = f"{_name(expected[good])}, position 0" if good < len(expected) else "no more rows"
            self.alignment.add(
                f"found {_name(found[good])}, position {positions[good]}; the trajectories table wants {wanted}"
            )
            return
        self._check_lengths(keys[:-1], (earlier + rows)[:-1])
        self._check_mask(keys, earlier, rows, mask, columns)
        self._open, self._consumed = keys[-1:], int((earlier + rows)[-1])

    def _check_lengths(self, keys: Keys, rows: npt.NDArray[np.int64]) -> None:
        """Trajectories that have ended have as many rows as prompt and response tokens."""
        wrong = np.flatnonzero(rows != keys[:, 3] + keys[:, 4])
        for index in wrong[:TOLD].tolist():
            prompt, response = keys[index, 3:].tolist()
            self.alignment.add(
                f"{_name(keys[index])} has {rows[index]} rows; its prompt has {prompt} tokens, its response {response}"
            )
        if wrong.size > TOLD:
            self.alignment.add("others", wrong.size - TOLD)

    def _check_mask(
        self,
        keys: Keys,
        earlier: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
        mask: Bools,
        columns: dict[str, Int32],
    ) -> None:
        """The mask is false on each prompt and true on each response."""
        prompt = np.clip(keys[:, 3] - earlier, 0, rows)
        expected = np.repeat(np.tile([False, True], len(keys)), np.stack([prompt, rows - prompt], axis=1).ravel())
        if np.array_equal(expected, mask):
            return
        wrong = np.flatnonzero(expected != mask)
        row = int(wrong[0])
        kind = "prompt token is counted" if mask[row] else "response token is masked out"
        round_, trajectory, position = (int(columns[name][row]) for name in ("round", "trajectory", "position"))
        self.masking.add(f"round {round_}, trajectory {trajectory}, position {position}: a {kind}", wrong.size)

    def _check_patterns(self, mask: Bools, present: dict[str, Bools]) -> None:
        """Every counted token has its patterns, and no other token has any; only the prefill may be unscored."""
        for side in SIDES:
            if present[side] is mask:
                continue
            missing = int(np.count_nonzero(mask & ~present[side])) if side != "prefill" else 0
            if missing:
                self.masking.add(f"{missing} response tokens have no {side} logprob", missing)
            extra = int(np.count_nonzero(present[side] & ~mask))
            if extra:
                self.masking.add(f"{extra} tokens outside the mask have a {side} logprob", extra)


class _TrajectoryCursor:
    """Reads the trajectories table alongside the tokens."""

    def __init__(self, reader: EvidenceReader) -> None:
        names = ("arm", "round", "trajectory", "prompt_tokens", "response_tokens")
        self._batches = reader.batches("trajectories", names, codes_for=("arm",))
        self._waiting: Keys = np.empty((0, 5), dtype=np.int64)
        self._left = reader.rows("trajectories")

    def take(self, count: int) -> Keys:
        """The next ``count`` trajectories, fewer if there are no more."""
        while len(self._waiting) < count and (batch := next(self._batches, None)) is not None:
            arm_codes, arms = codes(batch.column("arm"), ARMS)
            columns = [arms[arm_codes], *(values(batch.column(name), np.int32) for name in batch.schema.names[1:])]
            self._waiting = np.concatenate([self._waiting, np.stack(columns, axis=1).astype(np.int64)])
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._left -= len(taken)
        return taken

    def remaining(self) -> int:
        """How many trajectories nobody has taken."""
        return self._left


def _name(key: npt.NDArray[np.integer[Any]]) -> str:
    arm, round_, trajectory = key[:3].tolist()
    return f"{ARMS[arm] if arm >= 0 else 'unknown arm'}, round {round_}, trajectory {trajectory}"


def _runs(starts: npt.NDArray[np.intp], count: int, arm_codes: Int32, rounds: Int32) -> list[tuple[int, int]]:
    """Row ranges with one arm and one round each; they can only change where a segment starts."""
    inner = starts[starts > 0]
    changes = (arm_codes[inner] != arm_codes[inner - 1]) | (rounds[inner] != rounds[inner - 1])
    return list(itertools.pairwise([0, *inner[changes].tolist(), count]))
