"""The dense family against transformers' own models."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from samebits.errors import InputError
from samebits.models import Dense
from samebits.models.family import Cache
from samebits.models.rope import rope_tables

SHAPE = {
    "attention_dropout": 0.0,
    "dtype": "float32",
    "head_dim": 16,
    "hidden_size": 48,
    "initializer_range": 0.2,
    "intermediate_size": 80,
    "max_position_embeddings": 64,
    "num_attention_heads": 6,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 97,
}
SEQUENCES = [[5, 96, 3, 3, 41, 0, 8], [11], [7, 60, 2, 19]]


def reference(kind, *, tied: bool, theta: float):
    """A random model of transformers whose norm weights are not 1."""
    config_class, model_class = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}[
        kind
    ]
    rope = {"rope_theta": theta, "rope_type": "default"}
    config = config_class(**SHAPE, tie_word_embeddings=tied, rope_parameters=rope)
    torch.manual_seed(11)
    model = model_class(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.normal_(1.0, 0.3)
    return model


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_logits_match_transformers(kind, tied, ops, pack):
    model = reference(kind, tied=tied, theta=50_000.0)
    decoder = Dense(model.config.to_dict())
    weights = {name: value.detach() for name, value in model.named_parameters()}
    assert {name: tuple(value.shape) for name, value in weights.items()} == decoder.parameter_shapes()
    with torch.no_grad():
        got = decoder.logits(ops, weights, decoder.hidden_states(ops, weights, pack(SEQUENCES)))
        expected = torch.cat([model(torch.tensor([sequence])).logits[0] for sequence in SEQUENCES])
    assert got.dtype == torch.float32
    assert got.shape == (12, 97)
    # fp32 in two orders of summation over three layers: a few ulps of logits of size 4.
    assert expected.abs().max() > 4
    torch.testing.assert_close(got, expected, rtol=0, atol=2e-5)
