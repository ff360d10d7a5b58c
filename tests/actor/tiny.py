"""A small world for the actor: a seeded Qwen3-shaped decoder and one round of trajectories in two groups."""

from __future__ import annotations

import random

from samebits.actor.actor import NativeActor
from samebits.actor.protocol import Tokens
from samebits.models import open_decoder, seeded_config, seeded_weights
from samebits.ops import OpSet, open_op_set
from samebits.recipe.model import Actor, DenseShape, Model

VOCAB = 96
SLOTS = 32
REWARDS = [1.0, 0.0, 0.0, 1.0, 0.0]

SETTINGS = {
    "kind": "native",
    "threads": 1,
    "learning_rate": 1e-2,
    "weight_decay": 0.1,
    "beta1": 0.9,
    "beta2": 0.999,
    "max_grad_norm": 1.0,
    "clip_epsilon": 0.2,
    "recompute_pack": 2,
    "train_pack": 3,
    "force_on_policy_ratio": False,
}

GATE = {
    "kind": ["native"],
    "threads": {"min": 1, "max": 4},
    "learning_rate": {"min": 0.0, "max": 1.0},
    "weight_decay": {"min": 0.0, "max": 1.0},
    "beta1": {"min": 0.0, "max": 1.0},
    "beta2": {"min": 0.0, "max": 1.0},
    "max_grad_norm": {"min": 0.0, "max": 1000.0},
    "clip_epsilon": {"min": 0.0, "max": 1.0},
    "recompute_pack": {"min": 1, "max": 64},
    "train_pack": {"min": 1, "max": 64},
    "force_on_policy_ratio": [False],
}


def model(**shape) -> Model:
    dtype = shape.pop("dtype", "bfloat16")
    return Model(
        family="dense",
        source="seeded",
        seed=7,
        dtype=dtype,
        shape=DenseShape(
            **{
                "vocab_size": VOCAB,
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "qk_norm": True,
                "initializer_range": 0.2,
                "lm_head_std": 0.5,
                **shape,
            }
        ),
    )


def actor(model: Model, op_set: str | OpSet = "native", **settings) -> NativeActor:
    return NativeActor(
        open_decoder(seeded_config(model)),
        seeded_weights(model),
        open_op_set(op_set) if isinstance(op_set, str) else op_set,
        Actor(**{**SETTINGS, **settings}),
        SLOTS,
    )


def trajectories(seed: int = 0) -> list[Tokens]:
    """Five of mixed lengths, one of them with a one-token response; groups 0, 0, 0, 1, 1."""
    draw = random.Random(seed)  # noqa: S311 - token ids, not keys
    lengths = [(5, 12), (1, 7), (9, 20), (4, 5), (3, 18)]
    return [
        Tokens(
            request_id=f"r{index}",
            token_ids=[draw.randrange(VOCAB) for _ in range(length)],
            prompt_length=prompt,
            group=0 if index < 3 else 1,
        )
        for index, (prompt, length) in enumerate(lengths)
    ]
