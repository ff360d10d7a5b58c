"""The least that a family needs in order to run in a test."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor


class Packed:
    """A ``Batch`` of whole sequences; keys and values go to ``slots`` zero-padded slots."""

    def __init__(self, sequences: list[list[int]], slots: int = 32) -> None:
        lengths = [len(sequence) for sequence in sequences]
        self.token_ids = torch.tensor([token for sequence in sequences for token in sequence])
        self.positions = torch.cat([torch.arange(length) for length in lengths])
        self.starts = [sum(lengths[:count]) for count in range(len(lengths) + 1)]
        self.offsets = [0] * len(lengths)
        self.slots = slots
        self.rows: dict[tuple[int, str], Tensor] = {}

    def store(self, layer: int, name: str, rows: Tensor) -> None:
        self.rows[layer, name] = rows

    def gather(self, layer: int, name: str) -> Tensor:
        rows = self.rows[layer, name]
        out = rows.new_zeros(len(self.offsets), self.slots, *rows.shape[1:])
        for index, (start, end) in enumerate(zip(self.starts, self.starts[1:], strict=False)):
            out[index, : end - start] = rows[start:end]
        return out

    def run_layer(self, compute, *arguments):
        return compute(*arguments)


@pytest.fixture
def pack():
    return Packed
