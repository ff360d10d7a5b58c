"""Watching a forward: which decisions it took and which rare things happened, row by row.

Exactness by rules must show that the rules were needed: ties met at a selection's boundary, contexts past the top-k,
clamps hit (RFC WS2; vacuous where none occurred).  A batch without an observer pays nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from samebits.observed import Decision, Event, Observed

Numbers = npt.NDArray[np.int64]


class Observer(Protocol):
    """What a family tells about one forward.  Rows are the batch's packed rows."""

    def decided(self, layer: int, what: str, rows: Tensor) -> None:
        """What each row decided: integers, booleans or fp32 [T, …]; both sides must agree on them."""

    def happened(self, layer: int, what: str, rows: Tensor) -> None:
        """How often an event met each row: integers or booleans [T]."""

    def reached(self, layer: int, what: str, value: int) -> None:
        """A level of this forward as a whole, of which the largest is kept; differs between packings."""


class Record:
    """Everything observed in many forwards, by sequence and position: a row computed again replaces the former.

    Decisions are kept as 64-bit sums over a row, so memory is 8 bytes for each row and kind.
    """

    def __init__(self) -> None:
        self.levels: dict[tuple[str, int], int] = {}
        self._decisions: dict[tuple[str, int], list[tuple[Numbers, Numbers]]] = {}
        self._events: dict[tuple[str, int], list[tuple[Numbers, Numbers]]] = {}

    def of(self, keys: Sequence[int], starts: Sequence[int], offsets: Sequence[int]) -> Observer:
        """The observer of one forward; ``keys`` names each of its sequences, 0 or more, the same on both sides."""
        places = [
            (key << 32) + np.arange(offset, offset + end - start, dtype=np.int64)
            for key, start, end, offset in zip(keys, starts[:-1], starts[1:], offsets, strict=True)
        ]
        return _Forward(self, np.concatenate(places))

    def digests(self, lengths: Mapping[int, int]) -> dict[tuple[str, int], str]:
        """sha256 for each (what, layer) over all rows in order of key and position.

        ``lengths`` has the positions that count of each key: an engine never computes the last token.
        """
        return {kind: _digest(counted) for kind, counted in self._within(lengths)}

    def counts(self, lengths: Mapping[int, int] | None = None) -> dict[tuple[str, int], int]:
        """How often each event happened, rows computed again counted once; within ``lengths`` if there are any."""
        found = {}
        for kind, parts in sorted(self._events.items()):
            places, values = _latest(parts)
            found[kind] = int((values if lengths is None else values[_counted(places, lengths)]).sum())
        return found

    def observed(self, lengths: Mapping[int, int]) -> Observed:
        """All of it, within ``lengths``, as a message."""
        return Observed(
            decisions=[
                Decision(layer=layer, what=what, rows=len(counted), digest=_digest(counted))
                for (what, layer), counted in self._within(lengths)
            ],
            counts=[
                Event(layer=layer, what=what, value=value) for (what, layer), value in self.counts(lengths).items()
            ],
            levels=[Event(layer=layer, what=what, value=value) for (what, layer), value in sorted(self.levels.items())],
        )

    def _within(self, lengths: Mapping[int, int]) -> Iterator[tuple[tuple[str, int], Numbers]]:
        """For each kind of decision (place, value) [R, 2]."""
        for kind, parts in sorted(self._decisions.items()):
            places, values = _latest(parts)
            yield kind, np.stack((places, values), axis=1)[_counted(places, lengths)]


class _Forward:
    def __init__(self, record: Record, places: Numbers) -> None:
        self._record = record
        self._places = places

    def decided(self, layer: int, what: str, rows: Tensor) -> None:
        self._record._decisions.setdefault((what, layer), []).append((self._places, fold(rows)))  # noqa: SLF001  # one class in two

    def happened(self, layer: int, what: str, rows: Tensor) -> None:
        self._record._events.setdefault((what, layer), []).append((self._places, rows.long().cpu().numpy()))  # noqa: SLF001  # one class in two

    def reached(self, layer: int, what: str, value: int) -> None:
        levels = self._record.levels
        levels[what, layer] = max(levels.get((what, layer), 0), value)


_FACTOR: Final = -7046029254386353131
"""2^64 over the golden ratio, as a signed number."""


def fold(rows: Tensor) -> Numbers:
    """One 64-bit number for each row of [T, …]: a sum of its elements, each times its own odd factor, modulo 2^64.

    Decides nothing and resists no forger; equal rows fold alike and unequal ones almost never do.
    """
    flat = rows.detach().reshape(len(rows), -1)
    numbers = flat.contiguous().view(torch.int32) if flat.dtype == torch.float32 else flat
    with np.errstate(over="ignore"):
        factors = np.cumprod(np.full(numbers.shape[1], _FACTOR, dtype=np.int64))
        folded: Numbers = ((numbers.long().cpu().numpy() + 1) * factors).sum(axis=1)
    return folded


def _latest(parts: list[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    places = np.concatenate([place for place, _ in parts])[::-1]
    values = np.concatenate([value for _, value in parts])[::-1]
    unique, last = np.unique(places, return_index=True)
    return unique, values[last]


def _counted(places: Numbers, lengths: Mapping[int, int]) -> npt.NDArray[np.bool_]:
    keys, inverse = np.unique(places >> 32, return_inverse=True)
    limits = np.array([lengths.get(int(key), 0) for key in keys], dtype=np.int64)
    return (places & 0xFFFF_FFFF) < limits[inverse]


def _digest(counted: Numbers) -> str:
    return hashlib.sha256(np.ascontiguousarray(counted, dtype="<i8").tobytes()).hexdigest()
