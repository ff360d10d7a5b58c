"""Right before exact: the structure is DeepSeek-V4's, held against transformers layer kind by layer kind."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

from models.ds4_small import SMALL, draw, transformers_model
from samebits.actor.packed_batch import PackedBatch
from samebits.models.ds4 import DeepSeekV4
from samebits.ops import open_op_set

TOLERANCE = 1e-4
"""Logits have a standard deviation of 2.4; fp32 sums in another order leave 1e-5."""


class Found(NamedTuple):
    values: torch.Tensor
    indices: torch.Tensor


def stable_topk(self, k, dim=-1, **_):
    """Of equal scores the first: transformers' own choice among them changes with the length."""
    values, indices = torch.sort(self, dim=dim, descending=True, stable=True)
    return Found(values[..., :k], indices[..., :k])


YARN = {"type": "yarn", "factor": 16.0, "original_max_position_embeddings": 64}
KINDS = {
    "window-hash": {"compress_ratios": [0], "num_hash_layers": 1},
    "window-score": {"compress_ratios": [0], "num_hash_layers": 0},
    "c4a-hash": {"compress_ratios": [4], "num_hash_layers": 1},
    "c4a-score": {"compress_ratios": [4], "num_hash_layers": 0},
    "c128a-score": {"compress_ratios": [128], "num_hash_layers": 0},
    "c32a-score": {"compress_ratios": [32], "num_hash_layers": 0},
    "two-streams": {"compress_ratios": [4], "num_hash_layers": 0, "hc_mult": 2},
    "yarn": {"compress_ratios": [0, 4], "num_hash_layers": 1, "rope_scaling": YARN},
    "all": {"compress_ratios": [0, 4, 128, 4], "num_hash_layers": 2},
}


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_transformers(kind, monkeypatch):
    torch.manual_seed(0)
    decoder = DeepSeekV4({**SMALL, **KINDS[kind], "num_hidden_layers": len(KINDS[kind]["compress_ratios"])})
    weights = draw(decoder)
    token_ids = torch.randint(0, 512, (1, 300))
    monkeypatch.setattr(torch.Tensor, "topk", stable_topk)
    with torch.no_grad():
        expected = transformers_model(decoder, weights)(token_ids).logits[0]
        ops = open_op_set("native")
        batch = PackedBatch(token_ids.tolist(), 512)
        found = decoder.logits(ops, weights, decoder.hidden_states(ops, weights, batch))
    assert expected.std() > 2
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE)
