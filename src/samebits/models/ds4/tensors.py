"""Every parameter of DeepSeek-V4: its shape, and in which form it is deployed.

FP8 (values and block scales): the attention's ``q_a``, ``q_b``, ``kv``, ``o_a``, ``o_b``, the indexer's ``q_b``, the
experts, the shared expert.  The model's dtype (bf16): embedding, head, norms, router gates, compressors' projections,
the indexer's head weights.  fp32: hyper-connections, sinks, position biases, selection bias.  int64: hash tables.
Without FP8 those matrices are in the model's dtype.  Names are transformers'; a quantised ``X`` travels as ``X`` and
``X_scale_inv``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from samebits.models.ds4.config import OVERLAPPING, Ds4Config

EMBEDDING: Final = "model.embed_tokens.weight"
FINAL_NORM: Final = "model.norm.weight"
HEAD: Final = "lm_head.weight"
COLLAPSE: Final = "model.hc_head.hc_"
SCALE: Final = "_scale_inv"
"""Ends the name of a quantised tensor's scales."""

Form = Literal["fp8", "model", "fp32", "int64"]


class Parameter(NamedTuple):
    """One parameter."""

    shape: tuple[int, ...]
    form: Form
    frozen: str | None = None
    """Why it has no gradient."""


_INDEXER: Final = "the indexer's choice of keys has no derivative"
_BIAS: Final = "moved by a load-balancing rule, not by a gradient"
_TABLE: Final = "a fixed table from token to experts"


def parameters(config: Ds4Config) -> dict[str, Parameter]:
    """In the order in which a seeded model draws them."""
    return dict(_parameters(config))


def at(layer: int) -> str:
    """What the names of a layer's parameters begin with."""
    return f"model.layers.{layer}"


def _parameters(config: Ds4Config) -> Iterator[tuple[str, Parameter]]:
    hidden, streams = config.hidden_size, config.hc_mult
    yield EMBEDDING, Parameter((config.vocab_size, hidden), "model")
    for layer in range(config.num_hidden_layers):
        for site in ("attn", "ffn"):
            mixes = (2 + streams) * streams
            yield f"{at(layer)}.{site}_hc.fn", Parameter((mixes, streams * hidden), "fp32")
            yield f"{at(layer)}.{site}_hc.base", Parameter((mixes,), "fp32")
            yield f"{at(layer)}.{site}_hc.scale", Parameter((3,), "fp32")
        yield f"{at(layer)}.input_layernorm.weight", Parameter((hidden,), "model")
        yield from _attention(config, f"{at(layer)}.self_attn", config.compress_ratios[layer])
        yield f"{at(layer)}.post_attention_layernorm.weight", Parameter((hidden,), "model")
        yield from _experts(config, f"{at(layer)}.mlp", is_hash=layer < config.num_hash_layers)
    yield COLLAPSE + "fn", Parameter((streams, streams * hidden), "fp32")
    yield COLLAPSE + "base", Parameter((streams,), "fp32")
    yield COLLAPSE + "scale", Parameter((1,), "fp32")
    yield FINAL_NORM, Parameter((hidden,), "model")
    yield HEAD, Parameter((config.vocab_size, hidden), "model")


def _attention(config: Ds4Config, name: str, ratio: int) -> Iterator[tuple[str, Parameter]]:
    hidden, width, rank = config.hidden_size, config.head_dim, config.q_lora_rank
    heads, groups = config.num_attention_heads, config.o_groups
    yield f"{name}.q_a_proj.weight", Parameter((rank, hidden), "fp8")
    yield f"{name}.q_a_norm.weight", Parameter((rank,), "model")
    yield f"{name}.q_b_proj.weight", Parameter((heads * width, rank), "fp8")
    yield f"{name}.kv_proj.weight", Parameter((width, hidden), "fp8")
    yield f"{name}.kv_norm.weight", Parameter((width,), "model")
    yield f"{name}.o_a_proj.weight", Parameter((groups * config.o_lora_rank, heads * width // groups), "fp8")
    yield f"{name}.o_b_proj.weight", Parameter((hidden, groups * config.o_lora_rank), "fp8")
    yield f"{name}.sinks", Parameter((heads,), "fp32")
    if not ratio:
        return
    yield from _compressor(f"{name}.compressor", hidden, width, ratio, frozen=None)
    if ratio == OVERLAPPING:
        inner, size, index_heads = f"{name}.compressor.indexer", config.index_head_dim, config.index_n_heads
        yield from _compressor(inner, hidden, size, ratio, frozen=_INDEXER)
        yield f"{inner}.q_b_proj.weight", Parameter((index_heads * size, rank), "fp8", _INDEXER)
        yield f"{inner}.scorer.weights_proj.weight", Parameter((index_heads, hidden), "model", _INDEXER)


def _compressor(
    name: str, hidden: int, width: int, ratio: int, *, frozen: str | None
) -> Iterator[tuple[str, Parameter]]:
    projected = 2 * width if ratio == OVERLAPPING else width
    yield f"{name}.kv_proj.weight", Parameter((projected, hidden), "model", frozen)
    yield f"{name}.gate_proj.weight", Parameter((projected, hidden), "model", frozen)
    yield f"{name}.position_bias", Parameter((ratio, projected), "fp32", frozen)
    yield f"{name}.kv_norm.weight", Parameter((width,), "model", frozen)


def _experts(config: Ds4Config, name: str, *, is_hash: bool) -> Iterator[tuple[str, Parameter]]:
    hidden, inner, experts = config.hidden_size, config.moe_intermediate_size, config.n_routed_experts
    yield f"{name}.gate.weight", Parameter((experts, hidden), "model")
    if is_hash:
        yield f"{name}.gate.tid2eid", Parameter((config.vocab_size, config.num_experts_per_tok), "int64", _TABLE)
    else:
        yield f"{name}.gate.e_score_correction_bias", Parameter((experts,), "fp32", _BIAS)
    yield f"{name}.experts.gate_up_proj", Parameter((experts, 2 * inner, hidden), "fp8")
    yield f"{name}.experts.down_proj", Parameter((experts, hidden, inner), "fp8")
    for part in ("gate_proj", "up_proj"):
        yield f"{name}.shared_experts.{part}.weight", Parameter((inner, hidden), "fp8")
    yield f"{name}.shared_experts.down_proj.weight", Parameter((hidden, inner), "fp8")
