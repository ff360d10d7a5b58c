"""The reference actor's small world, and the same actor inside Megatron."""

from __future__ import annotations

from actor import tiny
from samebits.models import open_decoder, seeded_config, seeded_weights
from samebits.ops import open_op_set
from samebits.ops.opset import OpSet
from samebits.recipe import MegatronActor as Settings
from samebits.recipe.model import Model

SETTINGS = {**tiny.SETTINGS, "kind": "megatron"}

GATE = {
    **tiny.GATE,
    "kind": ["megatron"],
    "tensor_model_parallel_size": [1],
    "pipeline_model_parallel_size": [1],
    "context_parallel_size": [1],
    "sequence_parallel": [False],
    "batch_invariant_mode": [False, True],
}

SHAPES = {
    "qwen3": {},
    "llama, tied": {"qk_norm": False, "tie_word_embeddings": True},
    "float32": {"dtype": "float32"},
    "one key head": {"num_key_value_heads": 1},
    "as many key heads": {"num_key_value_heads": 4},
}


def megatron(model: Model, ops: OpSet | str = "native", **settings):
    """An actor inside Megatron; imports it."""
    from samebits.actor.megatron.actor import MegatronActor  # noqa: PLC0415  # tests without Megatron import this file

    return MegatronActor(
        open_decoder(seeded_config(model)),
        seeded_weights(model),
        open_op_set(ops) if isinstance(ops, str) else ops,
        Settings(**{**SETTINGS, **settings}),
        tiny.SLOTS,
    )


def native(model: Model, ops: OpSet | str = "native", **settings):
    """The reference."""
    if isinstance(ops, str):
        return tiny.actor(model, ops, **settings)
    made = tiny.actor(model, **settings)
    return type(made)(open_decoder(seeded_config(model)), seeded_weights(model), ops, made._settings, tiny.SLOTS)
