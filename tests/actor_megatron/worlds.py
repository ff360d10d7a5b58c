"""The reference actor's small world, and the same actor inside Megatron."""

from __future__ import annotations

from actor import tiny
from samebits.actor.actor import NativeActor
from samebits.models import open_decoder, seeded_config, seeded_weights
from samebits.ops import open_op_set
from samebits.ops.opset import OpSet
from samebits.recipe import Actor, ActorSettings, Model
from samebits.recipe import MegatronActor as Megatron

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

    return _build(MegatronActor, Megatron(**{**SETTINGS, **settings}), model, ops)


def native(model: Model, ops: OpSet | str = "native", **settings):
    """The reference."""
    return _build(NativeActor, Actor(**{**tiny.SETTINGS, **settings}), model, ops)


def _build(kind: type[NativeActor], settings: ActorSettings, model: Model, ops: OpSet | str) -> NativeActor:
    chosen = open_op_set(ops) if isinstance(ops, str) else ops
    weights = {name: weight.to(chosen.device) for name, weight in seeded_weights(model).items()}
    return kind(open_decoder(seeded_config(model)), weights, chosen, settings, tiny.SLOTS)
