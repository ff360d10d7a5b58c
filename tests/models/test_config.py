"""Reading config.json: whatever changes the forward is read or refused."""

from __future__ import annotations

import pytest

from samebits.errors import InputError
from samebits.models.config import DenseConfig, parse_dense

LLAMA = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "model_type": "llama",
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_theta": 100_000.0, "rope_type": "default"},
    "tie_word_embeddings": True,
    "vocab_size": 49152,
}
NEXT = "Choose a model that this family computes."
NO_KEY = "no such key: rope scaling is not supported"
KNOWN = "keys known not to change the forward, or read by it"
KINDS = ["full_attention", "sliding_attention"]


def test_reads_smollm2():
    assert parse_dense(LLAMA) == DenseConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        head_dim=64,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_theta=100_000.0,
        tie_word_embeddings=True,
        qk_norm=False,
    )


def test_reads_the_older_spelling_of_rope_and_defaults():
    config = {key: LLAMA[key] for key in LLAMA.keys() - {"rope_parameters", "num_key_value_heads"}}
    parsed = parse_dense({**config, "rope_theta": 10_000, "rope_scaling": None, "model_type": "qwen3"})
    assert (parsed.rope_theta, parsed.num_key_value_heads, parsed.qk_norm) == (10_000.0, 9, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mamba2"}, f"config.json: model_type: found mamba2; accepted: llama or qwen3. {NEXT}"),
        ({"attention_bias": True}, f"config.json: attention_bias: found True; accepted: False. {NEXT}"),
        ({"mlp_bias": True}, f"config.json: mlp_bias: found True; accepted: False. {NEXT}"),
        ({"attention_dropout": 0.1}, f"config.json: attention_dropout: found 0.1; accepted: 0.0. {NEXT}"),
        ({"hidden_act": "gelu"}, f"config.json: hidden_act: found gelu; accepted: 'silu'. {NEXT}"),
        ({"sliding_window": 4096}, f"config.json: sliding_window: found 4096; accepted: None. {NEXT}"),
        (
            {"rope_scaling": {"factor": 8.0}},
            f"config.json: rope_scaling: found {{'factor': 8.0}}; accepted: None. {NEXT}",
        ),
        (
            {"rope_parameters": {"rope_theta": 1e5, "rope_type": "yarn"}},
            f"config.json: rope_parameters: rope_type: found yarn; accepted: 'default'. {NEXT}",
        ),
        (
            {"rope_parameters": {"rope_theta": 1e5, "factor": 8.0}},
            f"config.json: rope_parameters: factor: found 8.0; accepted: {NO_KEY}. {NEXT}",
        ),
        ({"rope_parameters": 3}, f"config.json: rope_parameters: found 3; accepted: an object. {NEXT}"),
        (
            {"layer_types": KINDS},
            f"config.json: layer_types: found {KINDS}; accepted: full_attention in every layer. {NEXT}",
        ),
        ({"layer_types": 3}, f"config.json: layer_types: found 3; accepted: full_attention in every layer. {NEXT}"),
        (
            {"num_key_value_heads": 2},
            f"config.json: num_key_value_heads: found 2; accepted: a divisor of num_attention_heads (9). {NEXT}",
        ),
        (
            {"num_attention_heads": 10, "num_key_value_heads": 10},
            f"config.json: head_dim: found nothing; accepted: a value, since 10 heads do not divide 576. {NEXT}",
        ),
        (
            {"head_dim": 63},
            f"config.json: head_dim: found 63; accepted: an even number, since rope rotates halves. {NEXT}",
        ),
        (
            {"vocab_size": None},
            f"config.json: vocab_size: found nothing; accepted: a whole number of at least 1. {NEXT}",
        ),
        (
            {"hidden_size": True},
            f"config.json: hidden_size: found True; accepted: a whole number of at least 1. {NEXT}",
        ),
        ({"rms_norm_eps": 0}, f"config.json: rms_norm_eps: found 0; accepted: a finite number above 0. {NEXT}"),
        (
            {"tie_word_embeddings": "yes"},
            f"config.json: tie_word_embeddings: found 'yes'; accepted: true or false. {NEXT}",
        ),
        (
            {"logit_scale": 2.0},
            f"config.json: logit_scale: found an unknown key; accepted: {KNOWN}. Remove it if it changes nothing.",
        ),
        (
            {"hidden_sizes": 576},
            f"config.json: hidden_sizes: found an unknown key; accepted: {KNOWN}. Did you mean 'hidden_size'?",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_refuses(change, message):
    with pytest.raises(InputError) as refused:
        parse_dense({**LLAMA, **change})
    assert str(refused.value) == message
