"""A permuted mapping is caught before anything is computed, and named."""

from __future__ import annotations

import pytest

from actor import tiny
from samebits.actor.megatron import mapping
from samebits.actor.megatron.mapping import Blocks, Entry
from samebits.errors import InputError

from .worlds import SHAPES, megatron

pytestmark = pytest.mark.megatron

NEXT = "Use the release of megatron-core that the row pins, or mend actor/megatron/mapping.py."


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_megatron_takes_its_parameters_apart_as_the_table_says(shape):
    megatron(tiny.model(**shape))


def test_the_engines_own_order_of_qkv(monkeypatch):
    """All queries, all keys, all values: what an engine fuses, and what Megatron does not."""
    monkeypatch.setattr(mapping, "qkv_blocks", lambda _: Blocks(groups=1, sizes=(64, 32, 32)))
    with pytest.raises(InputError) as caught:
        megatron(tiny.model())
    assert str(caught.value) == (
        "mapping of model.layers.0.self_attn.q_proj.weight: found row 32 at row 32 of "
        "decoder.layers.0.self_attention.linear_qkv.weight; accepted: row 64, from where Megatron takes it. " + NEXT
    )


def renamed(monkeypatch, parameter: str, tensors: tuple[str, ...]) -> None:
    whole = mapping.table

    def table(dense):
        return [
            Entry(parameter=entry.parameter, tensors=tensors, blocks=entry.blocks)
            if entry.parameter == parameter
            else entry
            for entry in whole(dense)
        ]

    for place in ("samebits.actor.megatron.actor.table", "samebits.actor.megatron.dense.table"):
        monkeypatch.setattr(place, table)


@pytest.mark.parametrize(
    ("parameter", "tensors", "message"),
    [
        (
            "decoder.layers.1.self_attention.linear_qkv.weight",
            tuple(f"model.layers.1.self_attn.{part}_proj.weight" for part in "qvk"),
            (
                "mapping of model.layers.1.self_attn.k_proj.weight: found row 0 at row 48 of "
                "decoder.layers.1.self_attention.linear_qkv.weight; accepted: row 32, from where Megatron takes it. "
            ),
        ),
        (
            "decoder.layers.2.mlp.linear_fc1.weight",
            ("model.layers.2.mlp.up_proj.weight", "model.layers.2.mlp.gate_proj.weight"),
            (
                "mapping of model.layers.2.mlp.gate_proj.weight: found row 0 at row 64 of "
                "decoder.layers.2.mlp.linear_fc1.weight; accepted: row 0, from where Megatron takes it. "
            ),
        ),
        (
            "decoder.layers.0.mlp.linear_fc1.weight",
            ("model.layers.1.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight"),
            (
                "mapping of model.layers.0.mlp.gate_proj.weight: found not in the table; accepted: "
                "64 rows of decoder.layers.0.mlp.linear_fc1.weight. "
            ),
        ),
    ],
    ids=["key and value", "gate and up", "another layer's gate"],
)
def test_rows_that_megatron_takes_from_elsewhere(monkeypatch, parameter, tensors, message):
    renamed(monkeypatch, parameter, tensors)
    with pytest.raises(InputError) as caught:
        megatron(tiny.model())
    assert str(caught.value) == message + NEXT


def test_two_norms_of_one_shape(monkeypatch):
    """Neither shapes nor round trips tell them apart; the order in which a forward uses them does."""
    whole = mapping.table
    names = {
        "decoder.layers.1.input_layernorm.weight": "model.layers.1.post_attention_layernorm.weight",
        "decoder.layers.1.pre_mlp_layernorm.weight": "model.layers.1.input_layernorm.weight",
    }

    def table(dense):
        return [
            Entry(parameter=entry.parameter, tensors=(names.get(entry.parameter, entry.tensors[0]), *entry.tensors[1:]))
            if entry.parameter in names
            else entry
            for entry in whole(dense)
        ]

    for place in ("samebits.actor.megatron.actor.table", "samebits.actor.megatron.dense.table"):
        monkeypatch.setattr(place, table)
    with pytest.raises(InputError) as caught:
        megatron(tiny.model())
    assert str(caught.value) == (
        "mapping of model.layers.1.input_layernorm.weight: found Megatron uses "
        "model.layers.1.post_attention_layernorm.weight in its place; accepted: "
        "number 12 of the tensors that a forward uses. " + NEXT
    )


def test_a_table_without_a_parameter(monkeypatch):
    whole = mapping.table
    for place in ("samebits.actor.megatron.actor.table", "samebits.actor.megatron.dense.table"):
        monkeypatch.setattr(place, lambda dense: whole(dense)[:-1])
    with pytest.raises(InputError) as caught:
        megatron(tiny.model())
    assert str(caught.value) == (
        "mapping of output_layer.weight: found in Megatron's model only; accepted: "
        "one entry of the table for every parameter of Megatron's. " + NEXT
    )
