"""The simplest ``Batch``: whole sequences packed into one forward, their rows kept as they come."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from ops.rows import misaligned


class Packed:
    """``lengths[b]`` new rows of sequence ``b``, after ``offsets[b]`` rows that were stored before.

    ``before`` is an earlier forward of the same sequences (same order), for chunked prefill and decode.
    """

    def __init__(self, lengths: list[int], slots: int, before: Packed | None = None) -> None:
        self.starts = [0, *itertools.accumulate(lengths)]
        self.offsets = [0] * len(lengths) if before is None else [a + b for a, b in before.reach()]
        self.slots = slots
        self.late = 0
        """Elements by which what is gathered starts late in its storage."""
        self.rows: dict[tuple[int, str], list[Tensor]] = {} if before is None else dict(before.rows)
        self.token_ids = torch.zeros(self.starts[-1], dtype=torch.int64)
        self.positions = torch.cat([torch.arange(a, a + b) for a, b in self.reach()])

    def reach(self) -> list[tuple[int, int]]:
        """Offset and length of each sequence's rows in this forward."""
        return [(a, e - s) for a, (s, e) in zip(self.offsets, itertools.pairwise(self.starts), strict=True)]

    def store(self, layer: int, name: str, rows: Tensor) -> None:
        new = [rows[s:e] for s, e in itertools.pairwise(self.starts)]
        old = self.rows.get((layer, name))
        self.rows[layer, name] = new if old is None else [torch.cat(pair) for pair in zip(old, new, strict=True)]

    def gather(self, layer: int, name: str) -> Tensor:
        pad = torch.nn.functional.pad
        kept = self.rows[layer, name]
        spread = torch.stack([pad(x, (0, 0) * (x.dim() - 1) + (0, self.slots - len(x))) for x in kept])
        return misaligned(spread, self.late) if self.late else spread

    def packed(self, layer: int, name: str) -> Tensor:
        return torch.cat(self.rows[layer, name])
