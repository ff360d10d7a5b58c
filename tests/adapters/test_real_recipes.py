"""The five grpo-qwen3-8b recipes of NeMo RL (commit 7ea279abfb) and their base file, on the row of vLLM 0.26.

They are read from where SAMEBITS_NEMO_RL_DATA says, or from ``shared/data/nemo-rl`` beside the checkout.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from samebits import pins
from samebits.adapters import Adapted, Refused, nemo_rl

CHECKOUT = Path(__file__).parents[2]
DATA = Path(os.environ.get("SAMEBITS_NEMO_RL_DATA") or CHECKOUT.parent / "shared" / "data" / "nemo-rl")
ROW = "h200-vllm-0.26"

LORA = "grpo-qwen3-8B-base-1n8g-fsdp2-lora.yaml"
LORA_TQ = "grpo-qwen3-8B-base-1n8g-fsdp2-lora-tq_mooncake.yaml"
LORA_MEGATRON = "grpo-qwen3-8b-base-1n8g-megatron-lora.yaml"
FP8 = "grpo-qwen3-8b-base-1n8g-fp8-kvcache-megatron.yaml"
NVFP4 = "grpo-qwen3-8b-base-dapo-2n8g-long-megatron-qa-nvfp4-w4a16.yaml"
BASE = "grpo_math_1B.yaml"

needs_recipes = pytest.mark.skipif(
    not (DATA / BASE).is_file(),
    reason=f"NeMo RL's recipes are not at {DATA}: set SAMEBITS_NEMO_RL_DATA to a folder with {BASE} and recipes/llm",
)

G = "policy.generation"
V = f"{G}.vllm_cfg"
K = f"{G}.vllm_kwargs"

Said = tuple[str, str, str, str]
"""File, field, found, accepted."""


def of_all(recipe: str) -> list[Said]:
    """What every one of them is refused for: they do not ask for the option, and leave much to vLLM."""
    return [
        (recipe, f"{V}.batch_invariant", "nothing, that is batch_invariant = false", "batch_invariant = true"),
        (
            recipe,
            f"{V}.enable_prefix_caching",
            "nothing: NeMo RL turns it on for GPUs of compute capability 8 and newer (enable_prefix_caching = true)",
            "false",
        ),
        (BASE, f"{V}.logprobs_mode", "'processed_logprobs'", "'raw_logprobs'"),
        (recipe, f"{K}.compilation_config.cudagraph_mode", "nothing", "'FULL' or 'NONE'"),
        (recipe, f"{K}.max_num_batched_tokens", "nothing", "512 … 65536"),
        (recipe, f"{K}.max_num_seqs", "nothing", "1 … 256"),
        (recipe, f"{K}.num_gpu_blocks_override", "nothing", "1 … 1000000"),
    ]


DIVISIBLE = "8, through ${mul:${policy.megatron_cfg.tensor_model_parallel_size}, 2}"
QUANT_CFG = "'examples/modelopt/quant_configs/nvfp4_a16_mlp_only.yaml'"

OWN: dict[str, list[Said]] = {
    LORA: [(LORA, "policy.dtensor_cfg.lora_cfg.enabled", "true", "false")],
    LORA_TQ: [(LORA, "policy.dtensor_cfg.lora_cfg.enabled", "true", "false")],
    LORA_MEGATRON: [(LORA_MEGATRON, "policy.megatron_cfg.peft.enabled", "true", "false")],
    FP8: [
        (FP8, f"{V}.kv_cache_dtype", "'fp8'", "'auto'"),
        (FP8, f"{V}.precision", "'fp8', that is quantization = 'fp8'", "quantization = unset"),
        (FP8, f"{V}.use_deep_gemm", "true", "false"),
        (FP8, "policy.make_sequence_length_divisible_by", DIVISIBLE, "1"),
        (FP8, "policy.megatron_cfg.tensor_model_parallel_size", "4", "1"),
        (BASE, "policy.sequence_packing.enabled", "true", "false"),
    ],
    NVFP4: [
        (NVFP4, f"{G}.quant_cfg", QUANT_CFG, "unset"),
        (NVFP4, f"{G}.real_quant", "true", "false"),
        (NVFP4, f"{V}.enforce_eager", "true", "false"),
        (NVFP4, f"{V}.tensor_parallel_size", "2", "1"),
        (NVFP4, "policy.make_sequence_length_divisible_by", DIVISIBLE, "1"),
        (NVFP4, "policy.megatron_cfg.sequence_parallel", "true", "false"),
        (NVFP4, "policy.megatron_cfg.tensor_model_parallel_size", "4", "1"),
        (NVFP4, "policy.quant_cfg", QUANT_CFG, "unset"),
        (BASE, "policy.sequence_packing.enabled", "true", "false"),
    ],
}

MENDED = (
    f"++{V}.batch_invariant=true",
    f"++{V}.enable_prefix_caching=false",
    f"{V}.logprobs_mode=raw_logprobs",
    f"++{K}.compilation_config.cudagraph_mode=FULL",
    f"++{K}.max_num_batched_tokens=8192",
    f"++{K}.max_num_seqs=64",
    f"++{K}.num_gpu_blocks_override=8192",
)
"""What :func:`of_all` asks for."""


@needs_recipes
@pytest.mark.parametrize("recipe", OWN)
def test_each_recipe_is_refused_for_exactly_this(recipe: str) -> None:
    outcome = nemo_rl(DATA / "recipes" / "llm" / recipe, pins.load(ROW)[0])
    assert isinstance(outcome, Refused)
    found = [(*one.field.split(": "), one.found, one.accepted) for one in outcome.conflicts]
    assert found == sorted(of_all(recipe) + OWN[recipe], key=lambda said: said[1])


@needs_recipes
@pytest.mark.parametrize("recipe", OWN)
def test_what_they_share_is_mended_on_the_command_line(recipe: str) -> None:
    outcome = nemo_rl(DATA / "recipes" / "llm" / recipe, pins.load(ROW)[0], MENDED)
    assert isinstance(outcome, Refused)
    assert [(*one.field.split(": "), one.found, one.accepted) for one in outcome.conflicts] == OWN[recipe]


@needs_recipes
def test_without_its_adapter_the_lora_recipe_is_accepted() -> None:
    overrides = (*MENDED, "policy.dtensor_cfg.lora_cfg.enabled=false")
    outcome = nemo_rl(DATA / "recipes" / "llm" / LORA, pins.load(ROW)[0], overrides)
    assert isinstance(outcome, Adapted)
    assert outcome.environment["VLLM_BATCH_INVARIANT"] == "1"
    assert outcome.settings["max_model_len"] == 2048
    assert outcome.origins["max_model_len"] == f"{BASE}: {V}.max_model_len"
    assert outcome.sampling["max_tokens"] == 2048


def test_the_documentation_names_each_of_them() -> None:
    """Every field, and no other number of conflicts: what is refused changes with the row and the tables."""
    text = (CHECKOUT / "docs" / "adapters.md").read_text()
    shared, rest = text.split("| recipe | field | found | accepted | why |")
    rows = [line for line in rest.split("`tests/adapters/")[0].splitlines() if line.startswith("| ")]
    for _, field, _, _ in of_all(LORA):
        assert f"| `{field}` |" in shared
    for recipe, said in OWN.items():
        start = next(
            index for index, row in enumerate(rows) if row.startswith(f"| `…{recipe.removesuffix('.yaml')[18:]}`")
        )
        own = [rows[start]]
        while start + len(own) < len(rows) and rows[start + len(own)].startswith("| |"):
            own.append(rows[start + len(own)])
        named = [part for row in own for part in row.split("|")[2].replace(" ", "").split(",")]
        assert sorted(named) == sorted(f"`{field}`" for _, field, _, _ in said)
