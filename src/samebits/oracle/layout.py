"""Rule 1 while streaming: the token rows are exactly the trajectories, in order, prompt before response.

The tokens table is cut into *segments*, one per trajectory, and each segment is held against its row of the
trajectories table.  Both are streams in the same order, so one walk over both is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from samebits.bits import Bits
from samebits.oracle.columns import Bools, Int32, booleans, codes, valid, values
from samebits.oracle.digests import SIDES
from samebits.oracle.evidence import EvidenceReader
from samebits.oracle.findings import Faults

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
    """By side; what stands where ``valid`` is false means nothing."""
    valid: dict[str, Bools]


class Key(NamedTuple):
    """Which trajectory, and what the trajectories table says of it."""

    arm: int
    round: int
    trajectory: int
    prompt: int
    response: int

    @property
    def name(self) -> str:
        arm = ARMS[self.arm] if self.arm >= 0 else "unknown arm"
        return f"{arm}, round {self.round}, trajectory {self.trajectory}"


class Layout:
    """Walks the tokens table, yields its blocks, and collects what is out of place."""

    def __init__(self, reader: EvidenceReader) -> None:
        self.alignment = Faults()
        self.masking = Faults()
        self._reader = reader
        self._expected = _TrajectoryCursor(reader)
        self._open: Key | None = None
        self._consumed = 0
        self._lost = False
        # After the first row that is not where it should be, every later one would be reported too.

    def blocks(self, batch: pa.RecordBatch) -> Iterator[Block]:
        """The rows of ``batch``, which follows the batch of the previous call."""
        count = batch.num_rows
        if count == 0:
            return
        arm_codes, arms = codes(batch.column("arm"), ARMS)
        columns = {
            name: values(batch.column(name), np.int32) for name in ("round", "trajectory", "position", "token_id")
        }
        mask = booleans(batch.column("mask"))
        sides = {side: batch.column(f"{side}_bits") for side in SIDES}
        patterns = {side: values(column, np.uint32) for side, column in sides.items()}
        present = {side: valid(column) for side, column in sides.items()}
        starts = self._segment_starts(arm_codes, arms, columns)
        self._check_segments(starts, count, arms[arm_codes[starts]], columns, mask)
        self._check_patterns(mask, present)
        for low, high in _runs(starts, count, arm_codes, columns["round"]):
            arm = int(arms[arm_codes[low]])
            if arm < 0:
                continue
            yield Block(
                arm=ARMS[arm],
                round=int(columns["round"][low]),
                trajectory=columns["trajectory"][low:high],
                position=columns["position"][low:high],
                token_id=columns["token_id"][low:high],
                mask=mask[low:high],
                bits={side: column[low:high] for side, column in patterns.items()},
                valid={side: column[low:high] for side, column in present.items()},
            )

    def finish(self) -> None:
        """After the last batch: the last trajectory ends here, and none may be left over."""
        self._close()
        left = 0 if self._lost else self._expected.remaining()
        if left:
            self.alignment.add(f"{left} trajectories have no token rows", left)

    def _segment_starts(self, arm_codes: Int32, arms: Int32, columns: dict[str, Int32]) -> npt.NDArray[np.intp]:
        """Where a row does not simply continue the row before it."""
        position = columns["position"]
        jumps = np.empty(position.size, dtype=np.bool_)
        np.not_equal(np.subtract(position[1:], position[:-1]), 1, out=jumps[1:])
        for column in (columns["trajectory"], columns["round"], arm_codes):
            jumps[1:] |= column[1:] != column[:-1]
        first = (int(arms[arm_codes[0]]), int(columns["round"][0]), int(columns["trajectory"][0]))
        jumps[0] = self._open is None or self._open[:3] != first or int(position[0]) != self._consumed
        return np.flatnonzero(jumps)

    def _check_segments(
        self, starts: npt.NDArray[np.intp], count: int, arms: Int32, columns: dict[str, Int32], mask: Bools
    ) -> None:
        before = int(starts[0]) if starts.size else count
        pieces: list[tuple[int, Key, int]] = []  # rows in this batch, trajectory, rows in earlier batches
        if self._open is not None:
            pieces.append((before, self._open, self._consumed))
            self._consumed += before
        rounds, trajectories, positions = (columns[name][starts] for name in ("round", "trajectory", "position"))
        ends = np.append(starts[1:], count)
        expected = self._expected.take(starts.size) if not self._lost else []
        for index, start in enumerate(starts.tolist()):
            self._close()
            if self._lost:
                break
            found = (int(arms[index]), int(rounds[index]), int(trajectories[index]))
            key = expected[index] if index < len(expected) else None
            self._open, self._consumed = key, int(ends[index]) - start
            if key is None or key[:3] != found or positions[index] != 0:
                self._lose(Key(*found, 0, 0), int(positions[index]), key)
                break
            pieces.append((self._consumed, key, 0))
        if not self._lost:
            self._check_mask(pieces, mask, columns)

    def _lose(self, found: Key, position: int, expected: Key | None) -> None:
        wanted = f"{expected.name}, position 0" if expected else "no more rows, by the trajectories table"
        self.alignment.add(f"found {found.name}, position {position}; expected {wanted}")
        self._open, self._lost = None, True

    def _close(self) -> None:
        if self._open is not None and self._consumed != self._open.prompt + self._open.response:
            self.alignment.add(
                f"{self._open.name} has {self._consumed} rows; its prompt has {self._open.prompt} tokens and its "
                f"response {self._open.response}"
            )
        self._open = None

    def _check_mask(self, pieces: list[tuple[int, Key, int]], mask: Bools, columns: dict[str, Int32]) -> None:
        """The mask is false on each prompt and true on each response."""
        counts = np.zeros((len(pieces), 2), dtype=np.int64)
        for index, (rows, key, earlier) in enumerate(pieces):
            prompt = min(max(key.prompt - earlier, 0), rows)
            counts[index] = prompt, rows - prompt
        expected = np.repeat(np.tile([False, True], len(pieces)), counts.ravel())
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
            if side != "prefill" and not np.array_equal(present[side], mask):
                missing = int(np.count_nonzero(mask & ~present[side]))
                if missing:
                    self.masking.add(f"{missing} response tokens have no {side} logprob", missing)
            extra = int(np.count_nonzero(present[side] & ~mask)) if not np.array_equal(present[side], mask) else 0
            if extra:
                self.masking.add(f"{extra} tokens outside the mask have a {side} logprob", extra)


class _TrajectoryCursor:
    """Reads the trajectories table alongside the tokens."""

    def __init__(self, reader: EvidenceReader) -> None:
        names = ("arm", "round", "trajectory", "prompt_tokens", "response_tokens")
        self._batches = reader.batches("trajectories", names)
        self._waiting: list[Key] = []
        self._left = reader.rows("trajectories")

    def take(self, count: int) -> list[Key]:
        """The next ``count`` trajectories, fewer if there are no more."""
        while len(self._waiting) < count:
            batch = next(self._batches, None)
            if batch is None:
                break
            arm_codes, arms = codes(batch.column("arm"), ARMS)
            columns = [arms[arm_codes], *(values(batch.column(name), np.int32) for name in batch.schema.names[1:])]
            self._waiting += map(Key._make, zip(*(column.tolist() for column in columns), strict=True))
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._left -= len(taken)
        return taken

    def remaining(self) -> int:
        """How many trajectories nobody has taken."""
        return self._left


def _runs(starts: npt.NDArray[np.intp], count: int, arm_codes: Int32, rounds: Int32) -> Iterator[tuple[int, int]]:
    """Row ranges with one arm and one round each; they can only change where a segment starts."""
    low = 0
    for start in starts.tolist():
        if start and (arm_codes[start] != arm_codes[start - 1] or rounds[start] != rounds[start - 1]):
            yield low, start
            low = start
    yield low, count
