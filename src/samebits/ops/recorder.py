"""Digests of one sequence's rows while forwards run: the half of tracing that knows nothing of op sets or engines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from samebits.traced import ABSENT, LOGPROB, WIDTH, ForwardShape, Rerun, Target, Traced, TracedOp


@dataclass(slots=True)
class _Op:
    mixes: bool
    implementation: str
    digests: dict[int, str] = field(default_factory=dict)


class Recorder:
    """Filled by whoever runs the forwards: :meth:`begin` each one, :meth:`note` each op's output.

    A row that is computed again (after a preemption) replaces the former, until the token has been drawn; what comes
    after it is not looked at.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._ops: dict[str, _Op] = {}
        self._forwards: list[ForwardShape] = []
        self._forward_of: dict[int, int] = {}
        self._reruns: dict[int, str] = {}
        self._rows: dict[int, int] = {}
        # Packed row of each position of the sequence that this forward computes.
        self._chosen: dict[int, int] = {}
        # The same among the rows that go through the head.
        self._is_done = False

    @property
    def is_watching(self) -> bool:
        """Whether this forward has rows of the sequence."""
        return bool(self._rows) and not self._is_done

    def begin(self, *, first: int, start: int, count: int, tokens: int, sequences: int) -> None:
        """A forward over ``tokens`` packed rows of so many ``sequences``.

        ``count`` rows from ``first`` on are the sequence's, at positions ``start`` and following; 0 if it is not there.
        """
        self._chosen = {}
        self._rows = {start + at: first + at for at in range(count) if start + at < self.target.token}
        if self.is_watching:
            self._forward_of |= dict.fromkeys(self._rows, len(self._forwards))
            self._forwards.append(ForwardShape(tokens=tokens, sequences=sequences, rows=count, start=start))

    def choose(self, rows: Sequence[int]) -> None:
        """Only these packed ``rows`` go through the head, in this order."""
        places = {row: at for at, row in enumerate(rows)}
        self._chosen = {position: places[row] for position, row in self._rows.items() if row in places}

    def note(
        self, name: str, output: Tensor, *, implementation: str, mixes: bool = False, is_head: bool = False
    ) -> None:
        """Digest the sequence's rows of ``output``: [T, …], or [R, …] of the chosen rows in the head."""
        places = self._chosen if is_head else self._rows
        if self._is_done or not places:
            return
        op = self._ops.setdefault(name, _Op(mixes, implementation))
        op.digests |= dict(zip(places, digests(output, list(places.values())), strict=True))
        if name == LOGPROB:
            self.end_if_drawn()

    def end_if_drawn(self) -> None:
        """Nothing more is looked at once the row before the token went through the head."""
        self._is_done |= self.target.token - 1 in self._chosen

    def logprobs(self, patterns: Mapping[int, int], *, implementation: str) -> None:
        """Enter the fp32 patterns of logprobs, by the position of their token, where no op was there to be watched."""
        op = self._ops.setdefault(LOGPROB, _Op(mixes=False, implementation=implementation))
        for position, pattern in patterns.items():
            if position <= self.target.token:
                op.digests[position - 1] = _digest(pattern.to_bytes(4, "little"))

    def row_to_rerun(self, name: str, *, is_head: bool = False) -> int | None:
        """The packed row that op ``name`` is to compute again among others, if it is here."""
        if name != self.target.rerun or self._is_done:
            return None
        return (self._chosen if is_head else self._rows).get(self.target.row)

    def reran(self, rows: int, output: Tensor) -> None:
        """``output``'s first row is the row in question, computed among so many ``rows``."""
        (self._reruns[rows],) = digests(output, [0])

    def result(self) -> Traced:
        """Everything up to the token."""
        positions = range(self.target.token)
        return Traced(
            ops=[
                TracedOp(
                    name=name,
                    mixes=op.mixes,
                    implementation=op.implementation,
                    digests="".join(op.digests.get(position, ABSENT) for position in positions),
                )
                for name, op in self._ops.items()
            ],
            forwards=self._forwards,
            forward_of=[self._forward_of.get(position, -1) for position in positions],
            reruns=[Rerun(rows=rows, digest=digest) for rows, digest in sorted(self._reruns.items())],
        )


def digests(output: Tensor, rows: Sequence[int]) -> list[str]:
    """A digest for each of ``rows`` of ``output`` [T, …]: of its bytes, whatever its shape."""
    chosen = output.detach().index_select(0, torch.tensor(rows, device=output.device))
    flat = chosen.reshape(len(rows), -1).contiguous().cpu().view(torch.uint8).numpy()
    return [_digest(row.tobytes()) for row in flat]


def _digest(row: bytes) -> str:
    return hashlib.blake2b(row, digest_size=WIDTH // 2).hexdigest()


def among(values: Sequence[object], row: int, height: int, rows: int) -> list[object]:
    """``values`` with every tensor of ``height`` rows cut to ``row`` and ``rows`` − 1 others, taken in a circle."""
    others = [at for at in range(height) if at != row] or [row]
    index = [row, *(others[at % len(others)] for at in range(rows - 1))]
    return [
        value.index_select(0, torch.tensor(index, device=value.device))
        if isinstance(value, Tensor) and value.dim() > 0 and len(value) == height
        else value
        for value in values
    ]
