"""A small DeepSeek-V4, its weights, and the same in transformers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from samebits.models.ds4 import DeepSeekV4

SMALL: dict[str, Any] = {
    "model_type": "deepseek_v4",
    "vocab_size": 512,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "head_dim": 128,
    "qk_rope_head_dim": 16,
    "q_lora_rank": 64,
    "o_groups": 2,
    "o_lora_rank": 64,
    "sliding_window": 32,
    "compress_ratios": [0, 4, 128, 4],
    "index_n_heads": 4,
    "index_head_dim": 32,
    "index_topk": 32,
    "n_routed_experts": 16,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 64,
    "num_hash_layers": 2,
    "routed_scaling_factor": 1.5,
    "swiglu_limit": 0.5,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 20,
    "max_position_embeddings": 512,
    "dtype": "float32",
}
FP8: dict[str, Any] = {
    **SMALL,
    "dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [32, 32], "scale_fmt": "ue8m0"},
}
FP8_CACHE: dict[str, Any] = {**FP8, "kv_cache_format": "fp8_ds_mla", "kv_cache_block": 16}


def draw(decoder: DeepSeekV4, *, seed: int = 0) -> dict[str, Tensor]:
    """Parameters in fp32 (tables int64), each far enough from what would make it vanish."""
    generator = torch.Generator().manual_seed(seed)
    ds4 = decoder.ds4
    found = {}
    for name, shape in decoder.parameter_shapes().items():
        normal = torch.randn(shape, generator=generator)
        if name.endswith("tid2eid"):
            chances = torch.rand(shape[0], ds4.n_routed_experts, generator=generator)
            found[name] = chances.argsort(dim=1)[:, : shape[1]].contiguous()
        elif name.endswith(("sinks", "position_bias", "base")):
            found[name] = normal * 0.5
        elif name.endswith("scale") or len(shape) == 1:
            found[name] = normal * 0.05 + (0 if name.endswith("bias") else 1)
        else:
            found[name] = normal * (0.15 if name.startswith("lm_head") else 0.05)
    return found


def deployed(decoder: DeepSeekV4, *, seed: int = 0) -> dict[str, Tensor]:
    """What an engine gets of ``draw``."""
    dtype = {"bfloat16": torch.bfloat16, "float32": torch.float32}[decoder.ds4.dtype]
    wanted = decoder.deployed(dtype)
    parameters = draw(decoder, seed=seed)
    return {name: tensor.to(wanted[name].dtype) for name, tensor in decoder.deploy(parameters).items()}


def transformers_model(decoder: DeepSeekV4, weights: dict[str, Tensor]) -> Any:
    """The same model in transformers, fp32, its indexer's top-k made stable by ``stable_topk``."""
    from transformers import DeepseekV4Config, DeepseekV4ForCausalLM  # noqa: PLC0415  # seconds, for one file only

    ds4 = decoder.ds4
    kinds = {0: "sliding_attention", 4: "compressed_sparse_attention"}
    heavy = next((ratio for ratio in ds4.compress_ratios if ratio not in kinds), 128)
    config = DeepseekV4Config(
        **{
            key: value
            for key, value in decoder.config.items()
            if key not in ("model_type", "compress_ratios", "dtype", "num_hash_layers", "rope_scaling")
        },
        layer_types=[kinds.get(ratio, "heavily_compressed_attention") for ratio in ds4.compress_ratios],
        compress_rates={"compressed_sparse_attention": 4, "heavily_compressed_attention": heavy},
        num_hash_layers=ds4.num_hash_layers,
        rope_parameters=None
        if ds4.rope_scaling is None
        else {
            "rope_type": "yarn",
            "factor": ds4.rope_scaling.factor,
            "original_max_position_embeddings": ds4.rope_scaling.original_max_position_embeddings,
            "beta_fast": ds4.rope_scaling.beta_fast,
            "beta_slow": ds4.rope_scaling.beta_slow,
        },
        attn_implementation="eager",
    )
    model = DeepseekV4ForCausalLM(config).eval()
    model.load_state_dict(weights)
    return model
