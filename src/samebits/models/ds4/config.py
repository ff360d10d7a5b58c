"""A DeepSeek-V4 ``config.json``: what changes the forward is read or refused, never overlooked.

Keys are those of the published files.  Two are ours: ``quantization_config.scale_fmt`` may be ``float32`` (the Base
models' plain scales), and ``kv_cache_format`` says how keys are rounded, since both sides must know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from samebits.ops.fp8 import Fp8Format
from samebits.schema import Closed, Conflict, parse, refuse

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]

OVERLAPPING: Final = 4
"""The compression ratio whose windows overlap and whose entries an indexer selects (C4A)."""

_NEUTRAL: Final = frozenset(
    {
        "_name_or_path",
        "architectures",
        "attention_dropout",
        "bos_token_id",
        "eos_token_id",
        "expert_dtype",
        "initializer_range",
        "model_type",
        "num_nextn_predict_layers",
        "pad_token_id",
        "torch_dtype",
        "transformers_version",
        "use_cache",
    }
)
"""Keys that reach no line of this family's forward.  Multi-token prediction layers are not computed."""


class Quantisation(Closed):
    """``quantization_config``: FP8 E4M3, dynamic activations."""

    quant_method: Literal["fp8"]
    fmt: Literal["e4m3"] = "e4m3"
    activation_scheme: Literal["dynamic"] = "dynamic"
    weight_block_size: Annotated[list[Count], Field(min_length=2, max_length=2)]
    scale_fmt: Literal["ue8m0", "float32"] = "float32"

    @property
    def format(self) -> Fp8Format:
        """As the op sets take it."""
        return Fp8Format(block=self.weight_block_size[0], scale=self.scale_fmt)


class RopeScaling(Closed):
    """YaRN (Peng et al., arXiv:2309.00071) on compressed layers, without its magnitude scale."""

    type: Literal["yarn"]
    factor: Positive
    original_max_position_embeddings: Count
    beta_fast: Positive = 32
    beta_slow: Positive = 1


class Ds4Config(Closed):
    """DeepSeek-V4 in structure, at any size."""

    vocab_size: Count
    hidden_size: Count
    num_hidden_layers: Count
    num_attention_heads: Count
    num_key_value_heads: Literal[1] = 1
    head_dim: Count
    qk_rope_head_dim: Count
    q_lora_rank: Count
    o_groups: Count
    o_lora_rank: Count
    sliding_window: Count
    compress_ratios: list[Annotated[int, Field(ge=0)]]
    """Per layer: 0 window only; 4 overlapping windows and an indexer; more: windows side by side, all visible."""
    rope_theta: Positive = 10_000.0
    compress_rope_theta: Positive = 160_000.0
    rope_scaling: RopeScaling | None = None
    index_n_heads: Count
    index_head_dim: Count
    index_topk: Count
    n_routed_experts: Count
    n_shared_experts: Literal[1] = 1
    num_experts_per_tok: Count
    moe_intermediate_size: Count
    num_hash_layers: Annotated[int, Field(ge=0)]
    scoring_func: Literal["sqrtsoftplus"] = "sqrtsoftplus"
    topk_method: Literal["noaux_tc"] = "noaux_tc"
    norm_topk_prob: Literal[True] = True
    routed_scaling_factor: Positive
    swiglu_limit: Positive
    hc_mult: Annotated[int, Field(ge=2)]
    hc_sinkhorn_iters: Count
    hc_eps: Positive = 1e-6
    rms_norm_eps: Positive = 1e-6
    max_position_embeddings: Count
    hidden_act: Literal["silu"] = "silu"
    tie_word_embeddings: Literal[False] = False
    attention_bias: Literal[False] = False
    dtype: Literal["bfloat16", "float32"]
    quantization_config: Quantisation | None = None
    kv_cache_format: Literal["auto", "fp8_ds_mla"] = "auto"
    kv_cache_block: Count = 64
    """Channels under one scale in a ``fp8_ds_mla`` row."""

    @property
    def fp8(self) -> Fp8Format | None:
        """None: every product runs in ``dtype``."""
        return None if self.quantization_config is None else self.quantization_config.format

    @model_validator(mode="after")
    def _numbers_fit_together(self) -> Self:
        refuse(_conflicts(self))
        return self


def parse_ds4(config: Mapping[str, Any], *, source: str = "config.json") -> Ds4Config:
    """The decoder that ``config`` describes; ``source`` names the file in errors.

    Raises:
        InputError: a key is missing, unknown or absurd, or asks for what this family does not compute.
    """
    known = {key: value for key, value in config.items() if key not in _NEUTRAL}
    known.setdefault("dtype", config.get("torch_dtype"))
    ratios = known.get("compress_ratios")
    layers, further = known.get("num_hidden_layers"), config.get("num_nextn_predict_layers", 0)
    if isinstance(ratios, list) and isinstance(layers, int) and len(ratios) == layers + further:
        known["compress_ratios"] = ratios[:layers]
    return parse(Ds4Config, known, source=source)


def _conflicts(config: Ds4Config) -> list[Conflict]:
    found = []

    def demand(holds: bool, field: str, accepted: str) -> None:
        if not holds:
            found.append(Conflict(field, found=getattr(config, field), accepted=accepted))

    demand(len(config.compress_ratios) == config.num_hidden_layers, "compress_ratios", "one ratio for each layer")
    demand(
        all(ratio == 0 or ratio >= OVERLAPPING for ratio in config.compress_ratios),
        "compress_ratios",
        "0, 4, or more than 4",
    )
    demand(config.qk_rope_head_dim % 2 == 0, "qk_rope_head_dim", "an even number, since rope rotates pairs")
    smaller = min(config.head_dim, config.index_head_dim)
    demand(config.qk_rope_head_dim <= smaller, "qk_rope_head_dim", f"at most {smaller}, the smaller head")
    demand(
        config.num_attention_heads % config.o_groups == 0,
        "o_groups",
        f"a divisor of num_attention_heads ({config.num_attention_heads})",
    )
    experts = config.n_routed_experts
    demand(config.num_experts_per_tok <= experts, "num_experts_per_tok", f"at most n_routed_experts ({experts})")
    if config.kv_cache_format == "fp8_ds_mla":
        plain = config.head_dim - config.qk_rope_head_dim
        demand(plain % config.kv_cache_block == 0, "kv_cache_block", f"a divisor of {plain}, the unrotated channels")
        demand(config.dtype == "bfloat16", "dtype", "bfloat16, since keys come back from FP8 rows in it")
    if config.quantization_config is not None:
        demand(config.dtype == "bfloat16", "dtype", "bfloat16, since FP8 products end in it")
        found += _blocks(config, config.quantization_config)
    return found


def _blocks(config: Ds4Config, quantisation: Quantisation) -> list[Conflict]:
    """Every quantised matrix is whole blocks in both directions."""
    rows, columns = quantisation.weight_block_size
    if rows != columns:
        return [
            Conflict(
                "quantization_config.weight_block_size",
                found=quantisation.weight_block_size,
                accepted="a square: activations have blocks of the same length",
            )
        ]
    widths = {
        "hidden_size": config.hidden_size,
        "q_lora_rank": config.q_lora_rank,
        "head_dim": config.head_dim,
        "o_lora_rank": config.o_lora_rank,
        "moe_intermediate_size": config.moe_intermediate_size,
        "index_head_dim": config.index_n_heads * config.index_head_dim,
    }
    return [
        Conflict(field, found=width, accepted=f"a multiple of the FP8 block, {rows}")
        for field, width in widths.items()
        if width % rows
    ]
