"""The dense family against transformers' own models."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from samebits.models import Cache, Dense
from samebits.ops import open_op_set
from samebits.ops.rope import Rope, exact_tables

SHAPE = {
    "attention_dropout": 0.0,
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
CLASSES = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}
SEQUENCES = [[5, 96, 3, 3, 41, 0, 8], [11], [7, 60, 2, 19]]


def reference(kind: str, *, tied: bool):
    """A random fp32 model of transformers whose norm weights are not 1."""
    config_class, model_class = CLASSES[kind]
    rope = {"rope_theta": 50_000.0, "rope_type": "default"}
    torch.manual_seed(11)
    model = model_class(config_class(**SHAPE, tie_word_embeddings=tied, rope_parameters=rope)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.normal_(1.0, 0.3)
    return model


@pytest.mark.parametrize("op_set", ["plain", "native"])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_logits_match_transformers(kind, tied, op_set, pack):
    model = reference(kind, tied=tied)
    decoder, ops = Dense(model.config.to_dict()), open_op_set(op_set)
    weights = {name: value.detach() for name, value in model.named_parameters()}
    assert {name: tuple(value.shape) for name, value in weights.items()} == decoder.parameter_shapes()
    with torch.no_grad():
        got = decoder.logits(ops, weights, decoder.hidden_states(ops, weights, pack(SEQUENCES)))
        expected = torch.cat([model(torch.tensor([sequence])).logits[0] for sequence in SEQUENCES])
    assert got.dtype == torch.float32
    assert got.shape == (12, 97)
    # Two orders of summation in fp32 over three layers: a few ulps of logits of size 4.
    assert expected.abs().max() > 4
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)


def test_gradients_match_transformers(pack):
    model = reference("qwen3", tied=False)
    decoder, ops, targets = Dense(model.config.to_dict()), open_op_set("native"), [96, 3, 3, 41, 0, 8, 1]
    weights = {name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()}
    hidden = decoder.hidden_states(ops, weights, pack(SEQUENCES[:1]))
    ops.token_logprobs(decoder.logits(ops, weights, hidden), torch.tensor(targets)).mean().neg().backward()
    logits = model(torch.tensor(SEQUENCES[:1])).logits[0]
    torch.nn.functional.cross_entropy(logits, torch.tensor(targets)).backward()
    for name, parameter in model.named_parameters():
        scale = float(parameter.grad.abs().max())
        assert scale > 0, name
        torch.testing.assert_close(weights[name].grad, parameter.grad, rtol=0, atol=1e-5 * scale, msg=name)


def test_what_the_workers_ask_of_a_decoder():
    decoder = Dense(reference("qwen3", tied=True).config.to_dict())
    assert (decoder.layers, decoder.vocab_size, decoder.max_positions) == (3, 97, 64)
    assert decoder.caches(2) == [Cache(name="k", row_shape=(2, 16)), Cache(name="v", row_shape=(2, 16))]
    assert decoder.input_norm(1) == "model.layers.1.input_layernorm.weight"
    assert decoder.input_norm(1) in decoder.parameter_shapes()
    assert decoder.frozen() == {}
    assert "lm_head.weight" not in decoder.parameter_shapes()


def test_rope_tables_do_not_depend_on_how_many_positions_are_asked_for():
    cos, sin = exact_tables(Rope(positions=8192, size=64, theta=100_000.0))
    few_cos, few_sin = exact_tables(Rope(positions=100, size=64, theta=100_000.0))
    assert cos.dtype == sin.dtype == torch.float32
    assert cos.shape == sin.shape == (8192, 32)
    assert torch.equal(cos[:100], few_cos)
    assert torch.equal(sin[:100], few_sin)
    # Position 8191 at frequency 1, correctly rounded; an angle rounded to fp32 first is off by 1e-4.
    angle = torch.tensor(8191.0, dtype=torch.float64)
    assert cos[8191, 0] == angle.cos().float()
    assert sin[8191, 0] == angle.sin().float()
