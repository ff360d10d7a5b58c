"""A recipe: what one certification runs and what it must show.

Recipes are TOML files under ``recipes/``.  The models are closed: an unknown key is an error.  Numbers that the
oracle's rules fix (temperature 1, ten refits) are not settings; a recipe can only ask for more.

What is *well formed* is decided here and in :mod:`samebits.recipe.checks`.  What is *certified* is decided by the
row's gate when engine and actor are constructed: ``tensor_parallel_size = 2`` is a well-formed recipe that the CPU row
refuses.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from samebits.recipe.checks import conflicts
from samebits.recipe.refused import IDLE, not_alone
from samebits.schema import Closed, refuse

Count = Annotated[int, Field(ge=1, le=10_000_000)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0, le=1e9)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class DenseShape(Closed):
    """The shape of a Llama/Qwen3 dense decoder, in Hugging Face's terms."""

    vocab_size: Count
    hidden_size: Count
    intermediate_size: Count
    num_hidden_layers: Annotated[int, Field(ge=1, le=4096)]
    num_attention_heads: Count
    num_key_value_heads: Count
    head_dim: Count
    rms_norm_eps: Positive = 1e-6
    rope_theta: Positive = 10_000.0
    qk_norm: bool = False
    """Qwen3 normalises each query and key head; Llama does not."""
    tie_word_embeddings: bool = False
    initializer_range: Positive = 0.02
    lm_head_std: Positive = 0.02
    """Spread of a seeded head: large enough that logits are far from uniform (rule 12)."""


class Ds4Shape(Closed):
    """The shape of a DeepSeek-V4 decoder, in the terms of its published ``config.json``."""

    vocab_size: Count
    hidden_size: Count
    num_attention_heads: Count
    head_dim: Count
    qk_rope_head_dim: Count
    q_lora_rank: Count
    o_groups: Count
    o_lora_rank: Count
    sliding_window: Count
    compress_ratios: Annotated[list[Annotated[int, Field(ge=0, le=4096)]], Field(min_length=1)]
    """One for each layer: 0 window only, 4 selected entries, more: all entries."""
    index_n_heads: Count
    index_head_dim: Count
    index_topk: Count
    n_routed_experts: Count
    num_experts_per_tok: Count
    moe_intermediate_size: Count
    num_hash_layers: Annotated[int, Field(ge=0, le=4096)]
    routed_scaling_factor: Positive = 1.5
    swiglu_limit: Positive = 10.0
    hc_mult: Annotated[int, Field(ge=2, le=64)] = 4
    hc_sinkhorn_iters: Annotated[int, Field(ge=1, le=1000)] = 20
    rope_theta: Positive = 10_000.0
    compress_rope_theta: Positive = 160_000.0
    max_position_embeddings: Count = 32_768
    fp8_block: Annotated[int, Field(ge=0, le=4096)] = 0
    """Side of a weight block and length of an activation block; 0: no FP8."""
    fp8_scale: Literal["ue8m0", "float32"] = "ue8m0"
    kv_cache_format: Literal["auto", "fp8_ds_mla"] = "auto"
    kv_cache_block: Count = 64
    initializer_range: Positive = 0.02
    lm_head_std: Positive = 0.02
    """Spread of a seeded head: large enough that logits are far from uniform (rule 12)."""
    selection_bias: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """Added to every expert's bias.  It changes no order, but fp32 sums round to its grid, so that routers tie."""


class Model(Closed):
    """Which weights. ``smollm2-135m`` is real; ``seeded`` is drawn from ``seed`` in the family's shape.

    A *foreign* model is none of the kit's: only what an engine makes of its configuration is recorded, on weights that
    the engine itself makes up (``dummy``).
    """

    family: Literal["dense", "ds4", "foreign"]
    source: Literal["smollm2-135m", "seeded", "dummy"]
    seed: Seed = 0
    shape: DenseShape | None = None
    """Of ``family = "dense"``."""
    ds4: Ds4Shape | None = None
    """Of ``family = "ds4"``."""
    config: dict[str, Any] | None = None
    """Of ``family = "foreign"``: its ``config.json``."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"


class Workload(Closed):
    """Which problems and how many answers: one *round* is generated under one policy version."""

    problems: Annotated[str, Field(min_length=1)]
    """A reasoning-gym task with a verifiable reward, for instance ``chain_sum``."""
    seed: Seed = 0
    problems_per_round: Count
    samples_per_problem: Annotated[int, Field(ge=2, le=4096)]
    """The group over which GRPO normalises rewards; a group of one has no advantage."""
    max_response_tokens: Count
    min_response_tokens: Count | None = None
    """If given, each request has a limit of its own between this and the most, by its seed: batches that thin out."""
    most_examples: Annotated[int, Field(ge=0, le=1000)] = 3
    """Problems are shown after none to so many solved ones: prompts of mixed lengths by design, and a small model that
    has seen an answer answers in the same form."""
    arrival_spread_steps: Annotated[int, Field(ge=0, le=1000)] = 4
    """Requests arrive over this many engine steps, so that the batch changes all the time."""


class EngineSettings(Closed):
    """What every kind of engine is asked; the row's gate decides what is certified. Fields are named as vLLM's."""

    kind: str
    max_model_len: Count
    max_num_seqs: Count
    max_num_batched_tokens: Count
    block_size: Count = 16
    num_gpu_blocks: Count
    """Pages in the KV cache (vLLM's word, on a CPU too); few enough that a preemption happens."""
    threads: Annotated[int, Field(ge=1, le=256)] = 2
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = False
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    enable_expert_parallel: bool = False
    speculative_config: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    enable_lora: bool = False
    kv_connector: str | None = None
    async_rollout: bool = False
    logprobs_mode: str = "raw_logprobs"


class NativeSettings(EngineSettings):
    """The kit's own engine."""

    kind: Literal["native"] = "native"


class VllmSettings(EngineSettings):
    """The real vLLM. Whatever decides bits is asked for by name, nothing is left to vLLM's own defaults."""

    kind: Literal["vllm"] = "vllm"
    batch_invariant: bool = False
    """``VLLM_BATCH_INVARIANT``; the aligned switch of GPU rows."""
    attention_split_kv: bool = False
    """``VLLM_CPU_ATTN_SPLIT_KV``: threads share one sequence's keys; the aligned switch of CPU rows."""
    attention_backend: Annotated[str, Field(min_length=1)]
    moe_backend: str = "auto"
    model_runner: Literal["V1", "V2"]
    enforce_eager: bool = False
    compilation_mode: Annotated[int, Field(ge=0, le=3)] = 0
    """``compilation_config.mode``: 0 leaves the model as it is written, 3 is vLLM's own compilation."""
    custom_ops: list[str] = Field(default=["none"])
    """``compilation_config.custom_ops``: ``none`` computes in PyTorch what ``all`` computes in C++ kernels."""
    ir_op_priority: dict[str, list[str]] = Field(default={})
    """``kernel_config.ir_op_priority``: which implementation of an operation comes first."""
    cudagraph_mode: Literal["NONE", "FULL", "PIECEWISE", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"] = "NONE"
    flashinfer_sampler: bool = False
    """``VLLM_USE_FLASHINFER_SAMPLER``; off, repeats agree at 44 co-resident sequences too (vllm#51187)."""
    async_scheduling: bool = False
    enable_dbo: bool = False
    """Micro-batching (dual batch overlap)."""
    gpu_memory_utilization: Fraction = 0.3
    """Share of the GPU's memory that engine and cache may take; the actor lives on the same GPU."""
    generation_config: str = "vllm"
    """Where sampling defaults come from: ``auto`` would read the model folder's ``generation_config.json``."""
    refit: Literal["file", "in_place"] = "file"
    """By ``reload_weights`` from a folder, or by ``load_weights`` into the live parameters."""


def _kind(data: object) -> str:
    """Where nothing is said engine and actor are the kit's own, as in recipes from before there were others."""
    found = data.get("kind", "native") if isinstance(data, dict) else getattr(data, "kind", "native")
    return str(found)


def _by_kind(kinds: str) -> Discriminator:
    return Discriminator(_kind, custom_error_type="kind", custom_error_message=f"a table with kind = {kinds}")


Engine = Annotated[
    Annotated[NativeSettings, Tag("native")] | Annotated[VllmSettings, Tag("vllm")], _by_kind('"native" or "vllm"')
]


class ActorSettings(Closed):
    """What every kind of policy worker is asked: AdamW on fp32 masters, bf16 deployed weights, a GRPO loss."""

    kind: str
    threads: Annotated[int, Field(ge=1, le=256)] = 2
    learning_rate: Annotated[float, Field(ge=0, le=1)]
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.0
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    max_grad_norm: Positive = 1.0
    clip_epsilon: Fraction = 0.2
    recompute_pack: Count
    """Sequences packed into one recompute forward."""
    train_pack: Count
    """Sequences packed into one training forward; must differ from ``recompute_pack`` (rule 3)."""
    activation_checkpointing: bool = False
    """Keep no activations inside a layer for the backward: compute them again, to the same bits."""
    force_on_policy_ratio: bool = False
    """NeMo RL's switch that skips the recompute; always refused (RFC acceptance criteria)."""


class Actor(ActorSettings):
    """The kit's own actor: the forward is the family's, written once over the op set."""

    kind: Literal["native"] = "native"


class MegatronActor(ActorSettings):
    """The same, with Megatron-core's GPTModel as the forward. Fields are named as in its configuration."""

    kind: Literal["megatron"] = "megatron"
    tensor_model_parallel_size: int = 1
    pipeline_model_parallel_size: int = 1
    context_parallel_size: int = 1
    sequence_parallel: bool = False
    batch_invariant_mode: bool = False
    """Megatron's own batch-invariant kernels; they would replace the op set's, and need Transformer Engine."""


AnyActor = Annotated[
    Annotated[Actor, Tag("native")] | Annotated[MegatronActor, Tag("megatron")], _by_kind('"native" or "megatron"')
]


class Certification(Closed):
    """How long, and the least that must have been exercised for the result not to be vacuous."""

    refits: Annotated[int, Field(ge=10, le=1000)] = 10
    control_rounds: Annotated[int, Field(ge=1, le=100)] = 2
    """Rounds of the control arm, interleaved with aligned rounds; they are also the overhead's baseline."""
    probe_sequences: Count = 1
    min_tokens: Count
    min_preemptions: Annotated[int, Field(ge=1)] = 1
    min_chunked_prefills: Annotated[int, Field(ge=0)] = 1
    """0 only where the engine's chunked prefill is off."""
    min_running: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Sequences that must have been decoded side by side at least once; 44 is where vllm#51187 began."""
    switch: Literal["op_set", "batch_invariant", "attention_split_kv"] = "op_set"
    """The aligned switch: the one thing in which the control arm differs (rule 11); the row's must be the same."""
    overhead_budget: Annotated[float, Field(ge=1, le=100)] | None = None
    """Aligned step time over unaligned step time; none on CPU rows (rule 9)."""


class Baseline(Closed):
    """The fastest supported unaligned configuration of the same recipe: what overhead is measured against (rule 9).

    Its rounds are timed, never compared.  Without one the control arm is the baseline.
    """

    engine: Annotated[dict[str, Any], Field(min_length=1)]
    """Laid over the recipe's engine settings, beside the switch in its control position."""
    rounds: Annotated[int, Field(ge=1, le=100)] = 2


class Exclusion(Closed):
    """One configuration or request that must be refused during the run (rule 10)."""

    kind: Literal["engine", "actor", "request"]
    set: Annotated[dict[str, Any], Field(min_length=1)]
    """Fields laid over the recipe's own settings, or over a conforming request's sampling parameters."""
    why: Annotated[str, Field(min_length=1)]


class Refusal(Closed):
    """All that such a recipe runs: the real engine is built on a foreign model, and must itself raise."""

    by: Literal["engine"]
    because: Annotated[str, Field(min_length=8, max_length=400)]
    """Text that the engine's own message must contain; any other failure is no refusal."""
    batch_invariant: bool
    """``VLLM_BATCH_INVARIANT``. Where it is on, the engine is built without it too: what it says then is on record."""
    arguments: dict[str, str | int | bool] = Field(default={})
    """Further ``EngineArgs``, laid over those that every such attempt has."""


class Recipe(Closed):
    """One recipe file."""

    schema_version: Literal[1]
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
    title: str
    rows: Annotated[list[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]], Field(min_length=1)]
    """Rows on which this recipe may be certified."""
    model: Model
    workload: Workload
    engine: Engine
    actor: AnyActor
    certification: Certification
    baseline: Baseline | None = None
    past_the_gate: dict[str, Any] = Field(default={})
    """Engine settings that the row does not certify and this recipe has all the same, so that the failure is on record.
    A run of it can never pass."""
    exclusions: Annotated[list[Exclusion], Field(min_length=1, max_length=1000)]
    refusal: Refusal | None = None
    """If given, nothing else is run, and nothing but the model is said besides."""

    @model_validator(mode="before")
    @classmethod
    def _a_refusal_stands_alone(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "refusal" not in data:
            return data
        refuse(not_alone(data))
        return {**IDLE, **data}

    @model_validator(mode="after")
    def _values_fit_together(self) -> Self:
        refuse(conflicts(self))
        return self
