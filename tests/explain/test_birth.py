"""The walk back, on traces made by hand."""

from __future__ import annotations

import re

import pytest

from samebits.errors import MachineError
from samebits.explain.birth import find_birth
from samebits.traced import ABSENT, ForwardShape, Traced, TracedOp

OPS = (
    "model.embed_tokens",
    "model.layers.0.input_layernorm",
    "model.layers.0.self_attn.k_proj",
    "model.layers.0.self_attn.v_proj",
    "model.layers.0.self_attn.rotary_emb.q",
    "model.layers.0.self_attn.rotary_emb.k",
    "model.layers.0.self_attn.attn",
    "model.layers.0.self_attn.o_proj",
    "model.layers.1.self_attn.v_proj",
    "model.layers.1.self_attn.rotary_emb.k",
    "model.layers.1.self_attn.attn",
    "logprob",
)
TOKEN = 4


def trace(different: set[tuple[str, int]] = frozenset(), absent: set[tuple[str, int]] = frozenset()) -> Traced:
    def digest(op: str, position: int) -> str:
        if (op, position) in absent:
            return ABSENT
        return f"{OPS.index(op) * 10 + position + 1000 * ((op, position) in different):016x}"

    return Traced(
        ops=[
            TracedOp(
                name=op,
                mixes=op.endswith("attn"),
                implementation="it",
                digests="".join(digest(op, position) for position in range(TOKEN)),
            )
            for op in OPS
        ],
        forwards=[ForwardShape(tokens=4, sequences=1, rows=4, start=0)],
        forward_of=[0] * TOKEN,
    )


def born(different: set[tuple[str, int]]) -> tuple[str, int]:
    found = find_birth(trace(), trace(different), TOKEN)
    return found.first.op, found.position


def test_the_first_differing_op_of_the_row_itself() -> None:
    last = TOKEN - 1
    assert born({("model.layers.0.self_attn.o_proj", last), ("logprob", last)}) == (
        "model.layers.0.self_attn.o_proj",
        last,
    )


def test_an_attention_over_equal_keys_and_values_is_where_it_was_born() -> None:
    different = {("model.layers.1.self_attn.attn", 3), ("logprob", 3), ("model.layers.1.self_attn.attn", 1)}
    assert born(different) == ("model.layers.1.self_attn.attn", 3)


def test_an_attention_over_other_keys_leads_to_the_row_that_has_them() -> None:
    different = {
        ("model.layers.0.self_attn.attn", 1),
        ("model.layers.0.self_attn.o_proj", 1),
        ("model.layers.1.self_attn.rotary_emb.k", 1),
        ("model.layers.1.self_attn.attn", 3),
        ("logprob", 3),
    }
    assert born(different) == ("model.layers.0.self_attn.attn", 1)


def test_a_query_of_another_row_is_nobody_s_cause() -> None:
    different = {("model.layers.0.self_attn.rotary_emb.q", 1), ("model.layers.0.self_attn.attn", 3), ("logprob", 3)}
    assert born(different) == ("model.layers.0.self_attn.attn", 3)


def test_a_product_whose_difference_the_rotation_did_not_keep_is_nobody_s_cause() -> None:
    different = {("model.layers.0.self_attn.k_proj", 1), ("model.layers.0.self_attn.attn", 3), ("logprob", 3)}
    assert born(different) == ("model.layers.0.self_attn.attn", 3)


def test_ops_that_one_side_did_not_compute_at_a_row_are_listed_and_not_compared() -> None:
    left = trace(absent={("model.embed_tokens", 3)})
    found = find_birth(left, trace({("model.embed_tokens", 3), ("logprob", 3)}), TOKEN)
    assert found.first.op == "logprob"
    assert found.rows[0].to_dict() == {
        "op": "model.embed_tokens",
        "layer": None,
        "left": None,
        "right": f"{1003:016x}",
        "equal": None,
        "leftBy": "it",
        "rightBy": "it",
    }


def test_traces_without_a_difference_are_an_error() -> None:
    with pytest.raises(MachineError, match=re.escape("trace up to position 4: found the same digests on both sides")):
        find_birth(trace(), trace(), TOKEN)
