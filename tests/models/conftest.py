from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor


class TorchOps:
    name = "torch"

    def linear(self, x, weight):
        return F.linear(x, weight)

    def embedding(self, token_ids, table):
        return F.embedding(token_ids, table)

    def add(self, x, y):
        return x + y

    def rms_norm(self, x, weight, epsilon):
        wide = x.float()
        return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(weight.dtype)

    def swiglu(self, gate, up):
        return F.silu(gate) * up

    def rope(self, x, cos, sin):
        a, b = x.float().chunk(2, -1)
        cos, sin = cos[:, None], sin[:, None]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)

    def attention(self, query, keys, values, batch):
        out = []
        for i, (start, end) in enumerate(zip(batch.starts, batch.starts[1:], strict=False)):
            q = query[start:end].transpose(0, 1)
            share = q.shape[0] // keys.shape[2]
            k = keys[i, : batch.offsets[i] + end - start].repeat_interleave(share, 1).transpose(0, 1)
            v = values[i, : batch.offsets[i] + end - start].repeat_interleave(share, 1).transpose(0, 1)
            out.append(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1))
        return torch.cat(out)


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


@pytest.fixture
def pack():
    return Packed


@pytest.fixture
def ops():
    return TorchOps()
