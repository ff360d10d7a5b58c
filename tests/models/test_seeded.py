"""Seeded weights: the same bits wherever and in whatever order they are drawn."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from samebits.errors import InputError
from samebits.integrity import tensor_digest
from samebits.models import open_decoder, open_folder, save_folder, seeded_config, seeded_weights
from samebits.models.seeded import normal
from samebits.recipe.model import DenseShape, Model

SHAPE = DenseShape(
    vocab_size=300,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    qk_norm=True,
    initializer_range=0.05,
    lm_head_std=0.4,
)
MODEL = Model(family="dense", source="seeded", seed=7, shape=SHAPE, dtype="float32")
HEAD = "lm_head.weight"


def test_golden_digests():
    # Other bits here mean another scheme: change samebits.models.seeded.SCHEME with them.
    weights = seeded_weights(MODEL)
    assert tensor_digest(weights[HEAD]) == "blake3:11e34cab799a56f4dda71bbe2aa59b532b5fec00f24bdaae222f9441e5b4121a"
    assert (
        tensor_digest(weights["model.layers.1.input_layernorm.weight"])
        == "blake3:190b4fd33a466c3a950f46a88db61ff7db069c8c74b904ecce8ff3b9d1d220bd"
    )
    half = seeded_weights(MODEL.model_copy(update={"dtype": "bfloat16"}))
    assert tensor_digest(half[HEAD]) == "blake3:e5336fe30a5a8d559f93e0691bf412f9c32f6abef9b3a9e8e6cd3db792dd4632"


def test_first_numbers_by_hand():
    # Twelve 16-bit integers per number, number i from words i, 3 + i, 6 + i … of a block of three.
    key = hashlib.sha256(b"samebits.seeded.v1\x007\x00lm_head.weight").digest()[:16]
    raw = np.random.Philox(key=int.from_bytes(key, "little")).random_raw(10).astype("<u8").view("<u2")
    sums = raw[:36].reshape(12, 3).astype(np.int64).sum(axis=0)
    assert normal(7, HEAD, 3).tolist() == [(int(total) - 393_210) / 65_536 for total in sums]


def test_a_tensor_depends_on_seed_and_name_only():
    np.random.seed(1)  # noqa: NPY002 - the global generator is what must not matter
    torch.manual_seed(1)
    first = normal(7, HEAD, 1000)
    np.random.seed(2)  # noqa: NPY002
    torch.manual_seed(2)
    deeper = MODEL.model_copy(update={"shape": SHAPE.model_copy(update={"num_hidden_layers": 3})})
    assert np.array_equal(normal(7, HEAD, 1000), first)
    assert torch.equal(seeded_weights(deeper)[HEAD], seeded_weights(MODEL)[HEAD])
    assert not np.array_equal(normal(8, HEAD, 1000), first)
    assert not np.array_equal(normal(7, "model.norm.weight", 1000), first)


def test_normal_in_shape():
    values = normal(0, "x", 2**20 + 5)  # crosses a block
    size = len(values)
    assert abs(values.mean()) < 4 / size**0.5
    assert abs(values.var() - 1) < 4 * (2 / size) ** 0.5
    assert abs((values**3).mean()) < 4 * (15 / size) ** 0.5
    # Twelve uniforms have excess kurtosis −6/5/12 = −0.1.
    assert abs((values**4).mean() - 2.9) < 4 * (96 / size) ** 0.5
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 4 / size**0.5
    assert len(np.unique(values[:1000])) > 990


def test_spreads():
    weights = seeded_weights(MODEL)
    assert list(weights) == list(open_decoder(seeded_config(MODEL)).parameter_shapes())
    for name, weight in weights.items():
        centre, spread = (1, 0.05) if weight.ndim == 1 else (0, 0.4) if name == HEAD else (0, 0.05)
        error = 5 * spread / weight.numel() ** 0.5
        assert abs(float(weight.mean()) - centre) < error, name
        assert abs(float(weight.std()) - spread) < error, name


def test_a_tied_table_has_the_heads_spread():
    tied = MODEL.model_copy(update={"shape": SHAPE.model_copy(update={"tie_word_embeddings": True})})
    weights = seeded_weights(tied)
    assert HEAD not in weights
    assert abs(float(weights["model.embed_tokens.weight"].std()) - 0.4) < 0.02


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("qk_norm", "kind"), [(True, "qwen3"), (False, "llama")])
def test_makes_a_folder(tmp_path, dtype, qk_norm, kind):
    model = MODEL.model_copy(update={"dtype": dtype, "shape": SHAPE.model_copy(update={"qk_norm": qk_norm})})
    weights = seeded_weights(model)
    save_folder(tmp_path, seeded_config(model), weights)
    decoder, read = open_folder(tmp_path, getattr(torch, dtype))
    assert decoder.config["model_type"] == kind
    assert {name: tensor_digest(weight) for name, weight in read.items()} == {
        name: tensor_digest(weight) for name, weight in weights.items()
    }


def test_needs_a_shape():
    with pytest.raises(InputError) as refused:
        seeded_weights(Model(family="dense", source="seeded"))
    assert str(refused.value) == (
        "model.shape: found nothing; accepted: the shape of the decoder to draw. "
        "Add a [model.shape] table, or choose a source with weights of its own."
    )
