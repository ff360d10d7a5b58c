from __future__ import annotations

import pytest
import torch

from samebits.actor.packed_batch import PackedBatch


def test_layout():
    batch = PackedBatch([[5, 6, 7], [8], [9, 4]], max_model_len=4)
    assert batch.token_ids.tolist() == [5, 6, 7, 8, 9, 4]
    assert batch.token_ids.dtype == torch.int64
    assert batch.positions.tolist() == [0, 1, 2, 0, 0, 1]
    assert batch.starts == [0, 3, 4, 6]
    assert batch.offsets == [0, 0, 0]


def test_gather_spreads_rows_and_pads_with_zeros():
    batch = PackedBatch([[5, 6, 7], [8], [9, 4]], max_model_len=4)
    rows = torch.arange(1.0, 13.0).view(6, 1, 2)
    batch.store(3, "k", rows)
    gathered = batch.gather(3, "k")
    assert gathered.shape == (3, 4, 1, 2)
    assert gathered[:, :, 0, 0].tolist() == [[1, 3, 5, 0], [7, 0, 0, 0], [9, 11, 0, 0]]


def test_gather_sends_the_gradient_back_to_its_row():
    batch = PackedBatch([[5, 6], [8]], max_model_len=3)
    rows = torch.zeros(3, 2, requires_grad=True)
    batch.store(0, "v", rows)
    weights = torch.arange(12.0).view(2, 3, 2)
    (batch.gather(0, "v") * weights).sum().backward()
    assert rows.grad.tolist() == [[0, 1], [2, 3], [6, 7]]


def test_gather_keeps_bits():
    batch = PackedBatch([[1, 1]], max_model_len=2)
    rows = torch.tensor([[-0.0], [float("nan")]], dtype=torch.bfloat16)
    batch.store(0, "k", rows)
    assert torch.equal(batch.gather(0, "k").view(torch.int16).view(2, 1), rows.view(torch.int16))


def test_a_forward_stores_once():
    batch = PackedBatch([[1]], max_model_len=1)
    batch.store(0, "k", torch.zeros(1, 1))
    with pytest.raises(ValueError, match=r"^cache 'k' of layer 0 is already stored in this packed forward$"):
        batch.store(0, "k", torch.zeros(1, 1))


def test_packed_gives_the_stored_rows():
    batch = PackedBatch([[5, 6, 7], [8]], max_model_len=4)
    rows = torch.arange(8.0).view(4, 2)
    batch.store(1, "v", rows)
    assert batch.packed(1, "v") is rows


def test_a_checkpointed_layer_is_computed_again_and_leaves_no_cache_behind():
    batch = PackedBatch([[5, 6, 7]], max_model_len=3, checkpointing=True)
    weight = torch.tensor([2.0], requires_grad=True)
    calls = []

    def layer(x, residual):
        calls.append(residual)
        batch.store(0, "k", x * weight)
        return batch.packed(0, "k").square(), x

    x = torch.tensor([[1.0], [2.0], [3.0]])
    y, _ = batch.run_layer(layer, x, None)
    with pytest.raises(KeyError):
        batch.packed(0, "k")
    y.sum().backward()
    assert calls == [None, None]
    assert weight.grad.tolist() == [2 * 2 * (1 + 4 + 9)]
    with torch.no_grad():
        batch.run_layer(layer, x, None)
    assert len(calls) == 3
