"""NeMo RL's configuration, field by field (commit 7ea279abfb, 2026-08-22, and the worker code that reads it).

``policy.generation`` is ``VllmConfig`` in ``nemo_rl/models/generation/vllm/config.py``; what becomes of each field is
in ``vllm_worker.py`` (``llm_kwargs``, ``_build_sampling_params``) and ``models/generation/__init__.py``.
"""

from __future__ import annotations

from typing import Any, Final

from samebits.adapters.meaning import (
    DERIVED,
    FREE,
    NO_TABLE,
    OFF,
    ONE,
    PARALLEL,
    QUANTISED,
    SWITCH,
    UNSET,
    UNTESTED,
    ZERO,
    Arguments,
    Engine,
    Only,
    Request,
    Table,
    Variables,
    free,
)
from samebits.pins import Values

_LOGITS: Final = "Remove it: the actor's logits do not go through it."


def _top_k(value: Any) -> Any:
    """``null`` is sent as −1."""
    return -1 if value is None else value


GENERATION_VLLM: Final[Table] = {
    "tensor_parallel_size": Engine("tensor_parallel_size"),
    "pipeline_parallel_size": Engine("pipeline_parallel_size"),
    "expert_parallel_size": DERIVED,  # becomes two settings, see nemo_rl.py
    "gpu_memory_utilization": Engine("gpu_memory_utilization"),
    "max_model_len": Engine("max_model_len"),
    "enforce_eager": Engine("enforce_eager"),
    "kv_cache_dtype": Engine("kv_cache_dtype"),
    "logprobs_mode": Engine("logprobs_mode"),
    "enable_prefix_caching": Engine("enable_prefix_caching"),
    "hf_overrides": Engine("hf_overrides"),
    "enable_return_routed_experts": Only(OFF, UNTESTED),
    "precision": DERIVED,  # becomes dtype and quantization, see nemo_rl.py
    "batch_invariant": Only(SWITCH, "Write true or false."),  # the typed option
    "async_engine": FREE,  # how trajectories are generated says grpo.async_grpo; each step waits for all of them
    "fp32_lm_head": Only(OFF, "Set it to false: the policy worker's head computes in its own precision."),
    "use_deep_gemm": Only(OFF, "Set it to false: DeepGEMM's products are other bits."),
    "num_first_layers_in_bf16": FREE,  # read for FP8 alone, which is refused as precision
    "num_last_layers_in_bf16": FREE,
    "is_mx": Only(OFF, QUANTISED),
    "quantization_ignored_layer_kws": FREE,
    "quantization_ignore_patterns": FREE,
    "env_vars": Variables(),
    "expose_http_server": Only(
        OFF, "Set it to false: NeMo RL's own server takes sampling parameters per request, past this guard."
    ),
    "http_server_serving_chat_kwargs": FREE,  # of that server
    "tool_parser_plugin": FREE,
    "reasoning_parser_plugin": FREE,
    "http_refit_api_key_env_var": FREE,
    "http_refit_server_port": FREE,
    "zmq_refit_server_port": FREE,
    "refit_with_reload_api": FREE,  # both ways of loading are digested after load
    "reset_encoder_cache_after_weight_update": FREE,
    "load_format": FREE,  # NeMo RL overwrites it: dummy weights, then the first refit
    "skip_tokenizer_init": FREE,
    "cap_max_tokens_to_context": FREE,
    "video": Only(UNSET, "Remove it: only text is certified."),
    "use_tqdm": FREE,
    "enable_vllm_metrics_logger": FREE,
    "vllm_metrics_logger_interval": FREE,
}

_SAY_IN: Final = "Say it in policy.generation.vllm_cfg.{}; here NeMo RL would stop with a duplicate keyword."
_ALWAYS: Final = "Remove it: NeMo RL always says it itself."

VLLM_KWARGS: Final = Arguments(
    {
        "tensor_parallel_size": _SAY_IN.format("tensor_parallel_size"),
        "pipeline_parallel_size": _SAY_IN.format("pipeline_parallel_size"),
        "enable_expert_parallel": _SAY_IN.format("expert_parallel_size"),
        "gpu_memory_utilization": _SAY_IN.format("gpu_memory_utilization"),
        "enable_prefix_caching": _SAY_IN.format("enable_prefix_caching"),
        "dtype": _SAY_IN.format("precision"),
        "enforce_eager": _SAY_IN.format("enforce_eager"),
        "max_model_len": _SAY_IN.format("max_model_len"),
        "logprobs_mode": "Say it in policy.generation.vllm_cfg.logprobs_mode, which overwrites this one.",
        "kv_cache_dtype": "Say it in policy.generation.vllm_cfg.kv_cache_dtype.",
        "model": _ALWAYS,
        "served_model_name": _ALWAYS,
        "load_format": _ALWAYS,
        "skip_tokenizer_init": _ALWAYS,
        "seed": _ALWAYS,
        "trust_remote_code": _ALWAYS,
        "worker_extension_cls": _ALWAYS,
        "enable_sleep_mode": _ALWAYS,
        "disable_log_stats": _ALWAYS,
        "distributed_executor_backend": _ALWAYS,
    }
)
"""``LLM(model=…, …, **vllm_kwargs)``."""

GENERATION: Final[Table] = {
    "backend": Only(Values(("vllm",)), "Set it to vllm: this row's engine is vLLM.", required=True),
    "temperature": Request("temperature", required=True),
    "top_p": Request("top_p", required=True),
    "top_k": Request("top_k", _top_k, required=True),
    "max_new_tokens": Request("max_tokens", required=True),
    "stop_token_ids": Request("stop_token_ids"),
    "stop_strings": Request("stop"),
    "bad_words": Request("bad_words"),
    "ignore_eos": Request("ignore_eos"),
    "val_temperature": DERIVED,  # must equal the training values, see nemo_rl.py
    "val_top_p": DERIVED,
    "val_top_k": DERIVED,
    "vllm_cfg": GENERATION_VLLM,
    "vllm_kwargs": VLLM_KWARGS,
    "quant_cfg": Only(UNSET, QUANTISED),
    "real_quant": Only(OFF, QUANTISED),
    "real_quant_export_cpu_offload": FREE,  # read with real_quant alone
    "real_quant_ignore": FREE,
    "nvfp4_pertoken_rollout": {"enabled": Only(OFF, QUANTISED), "additional_ignore": FREE},
    "worker_extension_cls_fqn": Only(UNSET, "Remove it: nobody knows what another worker does."),
    "use_async_rollouts": FREE,  # SGLang's
    "refit_transport": Only(UNSET, "Set it to null (IPC or NCCL): a transport of differences is not certified."),
    "refit_cfg": FREE,  # read by the transports that are refused
    "colocated": FREE,  # decides where the engine runs and how weights travel; they are digested on arrival
    "mcore_generation_config": FREE,  # of another backend
    "port_range_low": FREE,
    "port_range_high": FREE,
    "model_name": FREE,  # written by NeMo RL
    "_pad_token_id": FREE,
    "_mtp_weights_from_refit": FREE,
    "_debug_payload_metrics": FREE,
}

_LORA: Final = "Set it to false: merged into a weight, an adapter is rounded with it; beside the layer it is not."
_PACKING: Final = "train_mb_tokens logprob_mb_tokens algorithm microbatch_order sequence_length_round"
_ADAPTER: Final = (
    "target_modules exclude_modules match_all_linear dim alpha dropout dropout_position lora_A_init lora_A_init_method "
    "lora_B_init_method a2a_experimental lora_dtype use_triton"
)
_LENGTHS: Final = "Set it to false: rollout and policy worker must see the same layout of sequences."

MEGATRON: Final[Table] = {
    "tensor_model_parallel_size": Only(ONE, PARALLEL),
    "pipeline_model_parallel_size": Only(ONE, "Set it to 1: only one GPU per replica is certified."),
    "context_parallel_size": Only(ONE, PARALLEL),
    "expert_model_parallel_size": Only(ONE, PARALLEL),
    "expert_tensor_parallel_size": Only(ONE, PARALLEL),
    "sequence_parallel": Only(OFF, "Set it to false: it splits sequences over tensor-parallel ranks."),
    "peft": {"enabled": Only(OFF, _LORA), **free(_ADAPTER)},
    "fp8_cfg": {"enabled": Only(OFF, QUANTISED), **free("fp8 fp8_recipe fp8_param")},
    "cuda_graph_impl": Only(Values(("none",)), "Set it to none: training in CUDA graphs is not certified."),
    "use_fused_linear_logprobs": Only(OFF, "Set it to false: the fused log-softmax never holds the logits."),
    "model_overrides": Only(NO_TABLE, "Empty it: overrides of the model are not read."),
    "fp32_lm_head": Only(OFF, "Set it to false: the rollout's head computes in the model's precision."),
    "mtp_num_layers": Only(ZERO, "Set it to 0: multi-token prediction is not certified."),
    "env_vars": Variables(),
    **free(
        "enabled force_reconvert_from_hf empty_unused_memory_level activation_checkpointing converter_type checkpoint "
        "pretrained_checkpoint fused_linear_logprobs_chunk_size cuda_graph_modules cuda_graph_warmup_steps "
        "fine_grained_activation_offloading offload_modules recompute_granularity recompute_modules "
        "num_layers_in_first_pipeline_stage num_layers_in_last_pipeline_stage pipeline_dtype freeze_moe_router "
        "moe_router_dtype moe_router_load_balancing_type moe_router_bias_update_rate moe_permute_fusion "
        "apply_rope_fusion bias_activation_fusion defer_fp32_logits moe_per_layer_logging moe_enable_deepep "
        "moe_token_dispatcher_type moe_shared_expert_overlap use_gloo_process_groups mtp_loss_scaling_factor "
        "mtp_use_repeated_layer mtp_detach_heads gradient_accumulation_fusion use_fused_weighted_squared_relu "
        "optimizer scheduler distributed_data_parallel_config"
    ),
}
"""``policy.megatron_cfg``: what makes equality impossible. The free fields are the policy worker's own business: its
kernels are not the row's actor's, which a note says."""

DTENSOR: Final[Table] = {
    "tensor_parallel_size": Only(ONE, PARALLEL),
    "context_parallel_size": Only(ONE, PARALLEL),
    "expert_parallel_size": Only(ONE, PARALLEL),
    "sequence_parallel": Only(OFF, "Set it to false: it splits sequences over tensor-parallel ranks."),
    "custom_parallel_plan": Only(UNSET, "Remove it: a plan of one's own is not read."),
    "lora_cfg": {"enabled": Only(OFF, _LORA), **free(_ADAPTER)},
    "automodel_kwargs": Only(NO_TABLE, "Empty it: they can replace the model's code."),
    "env_vars": Variables(),
    **free("enabled _v2 cpu_offload activation_checkpointing clear_cache_every_n_steps data_parallel_size"),
}
"""``policy.dtensor_cfg``, in the same way."""

POLICY: Final[Table] = {
    "quant_cfg": Only(UNSET, QUANTISED),
    "hf_config_overrides": Only(NO_TABLE, "Empty it: the model must be the one that its folder describes."),
    "logprob_chunk_size": Only(UNSET, "Set it to null: the recompute must have the training forward's shapes."),
    "draft": {
        "enabled": Only(OFF, "Set it to false: speculative decoding is not certified."),
        **free("model_name loss_weight num_layers aux_layer_indices"),
    },
    "sequence_packing": {"enabled": Only(OFF, _LENGTHS), **free(_PACKING)},
    "dynamic_batching": {"enabled": Only(OFF, _LENGTHS), **free(_PACKING)},
    "make_sequence_length_divisible_by": Only(ONE, "Set it to 1: padding would be part of the policy worker's shapes."),
    "router_replay": {"enabled": Only(OFF, "Set it to false: replayed routes are not the policy worker's own.")},
    **free(
        "generation megatron_cfg dtensor_cfg precision model_name tokenizer train_global_batch_size "
        "train_micro_batch_size generation_batch_size logprob_batch_size max_total_sequence_length max_grad_norm "
        "offload_optimizer_for_logprob refit_buffer_size_gb refit_persistent_ipc_buffers optimizer scheduler "
        "train_mb_tokens reward_model_cfg"
    ),
}
"""``policy`` itself; what has tables of its own is free here."""

ELSEWHERE: Final[Table] = {
    "policy.megatron_cfg.enabled": DERIVED,
    "policy.dtensor_cfg.enabled": DERIVED,
    "grpo.async_grpo.enabled": Only(SWITCH, "Write true or false."),
    "loss_fn.force_on_policy_ratio": Only(
        OFF, "Set it to false: with it the recompute never runs, and the loss compares a value with itself."
    ),
    "grpo.max_rollout_turns": Only(ONE, "Set it to 1: only single-turn rollouts are certified."),
    "env.should_use_nemo_gym": Only(OFF, "Set it to false: NeMo Gym talks to the engine over HTTP, past this guard."),
}
"""Dotted fields by themselves."""

TOP: Final[Table] = {
    "on_policy_distillation": Only(UNSET, "Remove it: only the policy's own log-probabilities are certified."),
    **free("grpo reward_penalties loss_fn checkpointing policy data env logger cluster data_plane"),
}
"""The whole; what has tables of its own, or decides only what is trained, is free here."""
