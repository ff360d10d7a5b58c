"""verl's configuration, field by field (verl-project/verl of 2026, as Hydra composes it).

``actor_rollout_ref.rollout`` is ``RolloutConfig`` in ``verl/workers/config/rollout.py``; what becomes of each field is
in ``verl/workers/rollout/vllm_rollout/vllm_async_server.py`` (``launch_server``, ``generate``) and in the agent loop.
"""

from __future__ import annotations

from typing import Final

from samebits.adapters.meaning import (
    DERIVED,
    FREE,
    NO_TABLE,
    OFF,
    ON,
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

_LENGTHS: Final = "Set it to false: rollout and policy worker must see the same layout of sequences."
_LORA: Final = "Set it to 0: merged into a weight, an adapter is rounded with it; beside the layer it is not."
_OWN_CODE: Final = "Remove it: nobody knows what code of one's own does."

_RECORDED: Final = Only(OFF, "Set it to false: rollouts read from a disk were made by another engine.")
_ALWAYS: Final = "Remove it: verl says it itself."
_SAY_IN: Final = "Say it in actor_rollout_ref.rollout.{}, which overwrites this one."

ENGINE_KWARGS: Final = Arguments(
    {
        "enable_expert_parallel": _SAY_IN.format("expert_parallel_size"),
        "data_parallel_size": _SAY_IN.format("data_parallel_size"),
        "load_format": _ALWAYS,
        "skip_tokenizer_init": _ALWAYS,
        "distributed_executor_backend": _ALWAYS,
        "worker_extension_cls": _ALWAYS,
        "trust_remote_code": _ALWAYS,
        "seed": _ALWAYS,
        "override_generation_config": _ALWAYS,
        "hf_overrides": "Remove it: the model must be the one that its folder describes.",
        "enable_sleep_mode": _ALWAYS,
        "disable_log_stats": _ALWAYS,
    }
)
"""``rollout.engine_kwargs.vllm``, laid over the arguments that verl makes of its own fields."""

_QAT: Final[Table] = {
    "enable": Only(OFF, QUANTISED),
    **free("_target_ mode group_size ignore_patterns activation_observer quantization_config_path"),
}
_REPLAY: Final[Table] = {
    "mode": Only(Values(("disabled",)), "Set it to disabled: replayed routes are not the policy worker's own."),
    **free("_target_ record_file replay_file"),
}
_PRECISION: Final = Only(Values(("bfloat16", "float32")), "Compute in the rollout's precision.")

ROLLOUT: Final[Table] = {
    "name": Only(Values(("vllm",)), "Set it to vllm: this row's engine is vLLM.", required=True),
    "mode": Only(Values(("async",)), "Set it to async: verl has no other."),
    "nnodes": Only(ZERO, "Set it to 0: a rollout apart from training is asynchronous, and weights change under it."),
    "full_determinism": Only(SWITCH, "Write true or false."),  # the typed option, see verl.py
    "temperature": Request("temperature", required=True),
    "top_p": Request("top_p", required=True),
    "top_k": Request("top_k", required=True),
    "repetition_penalty": FREE,  # the agent loop always says 1.0
    "ignore_eos": Request("ignore_eos"),
    "response_length": Request("max_tokens", required=True),
    "do_sample": Only(ON, "Set it to true: greedy decoding is no sample of the policy."),
    "calculate_log_probs": Only(ON, "Set it to true: there is nothing to compare without them.", required=True),
    "dtype": Engine("dtype"),
    "gpu_memory_utilization": Engine("gpu_memory_utilization"),
    "enforce_eager": Engine("enforce_eager"),
    "tensor_model_parallel_size": Engine("tensor_parallel_size"),
    "pipeline_model_parallel_size": Engine("pipeline_parallel_size"),
    "data_parallel_size": Engine("data_parallel_size"),
    "expert_parallel_size": DERIVED,
    "moe_tensor_parallel_size": Only(ONE, PARALLEL),
    "max_num_batched_tokens": Engine("max_num_batched_tokens"),
    "max_model_len": Engine("max_model_len"),
    "max_num_seqs": Engine("max_num_seqs"),
    "enable_chunked_prefill": Engine("enable_chunked_prefill"),
    "enable_prefix_caching": Engine("enable_prefix_caching"),
    "logprobs_mode": Engine("logprobs_mode"),
    "quantization": Engine("quantization"),
    "quantization_config_file": Only(UNSET, QUANTISED),
    "qat": _QAT,
    "mtp": DERIVED,
    "cudagraph_capture_sizes": DERIVED,
    "engine_kwargs": {"vllm": ENGINE_KWARGS, "sglang": FREE, "trtllm": FREE},
    "val_kwargs": {
        "_target_": FREE,
        "n": FREE,
        "do_sample": FREE,
        "temperature": DERIVED,
        "top_p": DERIVED,
        "top_k": DERIVED,
    },
    "scheduling_policy": Only(Values(("fcfs",)), "Set it to fcfs: only this order is certified."),
    "limit_images": Only(UNSET, "Remove it: only text is certified."),
    "multi_turn": {
        "enable": Only(OFF, "Set it to false: only single-turn rollouts are certified."),
        **free(
            "_target_ max_assistant_turns tool_config_path function_tool_path max_user_turns "
            "max_parallel_calls max_tool_response_length tool_response_truncate_side "
            "interaction_config_path use_inference_chat_template tokenization_sanity_check_mode format "
            "num_repeat_rollouts"
        ),
    },
    "agent": {
        "default_agent_loop": Only(Values(("single_turn_agent",)), "Set it to single_turn_agent."),
        "agent_loop_config_path": Only(UNSET, _OWN_CODE),
        "agent_loop_manager_class": Only(UNSET, _OWN_CODE),
        "custom_async_server": {"path": Only(UNSET, _OWN_CODE), "name": Only(UNSET, _OWN_CODE), "_target_": FREE},
        **free("_target_ num_workers"),
    },
    "skip": {
        "enable": _RECORDED,
        **free("_target_ dump_dir max_dump_step action"),
    },
    "skip_rollout": _RECORDED,
    "over_sample_rate": Only(ZERO, "Set it to 0: it aborts the longest trajectories, so that the sample is biased."),
    "enable_rollout_routing_replay": Only(OFF, "Set it to false: replayed routes are not the policy worker's own."),
    "moe_load_balance_metrics_interval": Only(ZERO, "Set it to 0: nothing is certified with it."),
    "disaggregation": {
        "enabled": Only(OFF, "Set it to false: prefill elsewhere brings cache pages from elsewhere."),
        **free(
            "prefill_replicas decode_replicas decode_tensor_model_parallel_size transfer_backend "
            "bootstrap_port ib_device"
        ),
    },
    "custom": Only(UNSET, _OWN_CODE),
    "checkpoint_manager_class": Only(UNSET, _OWN_CODE),
    "checkpoint_engine": {
        "backend": Only(Values(("naive",)), "Set it to naive: no other transport is certified."),
        "custom_backend_module": Only(UNSET, _OWN_CODE),
        **free("_target_ update_weights_bucket_megabytes engine_kwargs"),
    },
    **free(
        "_target_ n n_gpus_per_node prompt_length seed free_cache_engine enable_sleep_mode load_format "
        "layered_summon layer_name_map log_prob_micro_batch_size log_prob_micro_batch_size_per_gpu "
        "log_prob_max_token_len_per_gpu disable_log_stats multi_stage_wake_up trace server skip_tokenizer_init "
        "skip_dump_dir use_preprocessed_multimodal_input profiler prometheus sglang_engine_mode"
    ),
    "log_prob_use_dynamic_bsz": Only(OFF, _LENGTHS),
}

ACTOR: Final[Table] = {
    "strategy": DERIVED,
    "use_dynamic_bsz": Only(OFF, _LENGTHS),
    "use_remove_padding": Only(OFF, _LENGTHS),
    "use_prefix_grouper": Only(OFF, _LENGTHS),
    "pad_to_length": Only(OFF, _LENGTHS),
    "ulysses_sequence_parallel_size": Only(ONE, PARALLEL),
    "use_fused_kernels": Only(OFF, "Set it to false: the fused log-softmax never holds the logits."),
    "use_torch_compile": Only(OFF, "Set it to false: a compiled log-softmax is another one.", required=True),
    "router_replay": _REPLAY,
    "qat": _QAT,
    **free(
        "_target_ optim fsdp_config megatron rollout_n ppo_mini_batch_size ppo_micro_batch_size "
        "ppo_micro_batch_size_per_gpu ppo_max_token_len_per_gpu clip_ratio clip_ratio_low clip_ratio_high tau_pos "
        "tau_neg freeze_vision_tower policy_loss clip_ratio_c loss_agg_mode loss_scale_factor entropy_coeff "
        "calculate_entropy calculate_sum_pi_squared use_kl_loss kl_loss_coef kl_loss_type ppo_epochs shuffle "
        "data_loader_seed checkpoint profiler grad_clip entropy_from_logits_with_chunking "
        "entropy_from_logits_chunk_size entropy_checkpointing load_weight"
    ),
}
"""``actor_rollout_ref.actor``: what makes equality impossible; the engine's own table follows the strategy."""

FSDP: Final[Table] = {
    "mixed_precision": Only(UNSET, "Remove it: dtype says what is computed in."),
    "dtype": _PRECISION,
    "ulysses_sequence_parallel_size": Only(ONE, PARALLEL),
    "use_torch_compile": Only(OFF, "Set it to false: a compiled log-softmax is another one."),
    "pad_to_length": Only(OFF, _LENGTHS),
    "qat": _QAT,
    **free(
        "_target_ wrap_policy param_offload optimizer_offload offload_policy reshard_after_forward fsdp_size "
        "forward_prefetch model_dtype use_orig_params seed full_determinism entropy_from_logits_with_chunking "
        "entropy_from_logits_chunk_size entropy_checkpointing use_no_sync_for_gradient_accumulation "
        "pad_to_length_bucket forward_only strategy turbo_config"
    ),
}
"""``actor.fsdp_config``, of the strategies fsdp and fsdp2."""

MEGATRON: Final[Table] = {
    "tensor_model_parallel_size": Only(ONE, PARALLEL),
    "expert_model_parallel_size": Only(ONE, PARALLEL),
    "expert_tensor_parallel_size": Only(ONE, PARALLEL),
    "pipeline_model_parallel_size": Only(ONE, "Set it to 1: only one GPU per replica is certified."),
    "virtual_pipeline_model_parallel_size": Only(UNSET, "Set it to null."),
    "context_parallel_size": Only(ONE, PARALLEL),
    "dynamic_context_parallel": Only(OFF, UNTESTED),
    "use_remove_padding": Only(OFF, _LENGTHS, required=True),
    "pad_to_length": Only(OFF, _LENGTHS),
    "dtype": _PRECISION,
    "override_ddp_config": FREE,
    "override_transformer_config": {
        "attention_backend": FREE,
        **free("recompute_granularity recompute_modules recompute_method recompute_num_layers"),
    },
    "override_mcore_model_config": Only(NO_TABLE, "Empty it: overrides of the model are not read."),
    "router_replay": _REPLAY,
    "qat": _QAT,
    **free(
        "_target_ param_offload grad_offload optimizer_offload offload sequence_parallel use_distributed_optimizer "
        "use_dist_checkpointing dist_checkpointing_path max_seqlen_per_dp_cp_rank dist_checkpointing_prefix "
        "dist_ckpt_optim_fully_reshardable distrib_optim_fully_reshardable_mem_efficient "
        "entropy_from_logits_with_chunking entropy_from_logits_chunk_size seed use_mbridge vanilla_mbridge "
        "pad_bshd_to_minibatch_max pad_to_length_bucket use_megatron_fsdp forward_only"
    ),
}
"""``actor.megatron``, of the strategy megatron."""

MODEL: Final[Table] = {
    "lora_rank": Only(ZERO, _LORA),
    "lora_adapter_path": Only(UNSET, _LORA),
    "lora": {
        "rank": Only(ZERO, _LORA),
        "adapter_path": Only(UNSET, _LORA),
        **free(
            "type merge alpha dropout target_modules exclude_modules dropout_position lora_A_init_method "
            "lora_B_init_method a2a_experimental dtype freeze_vision_model freeze_vision_projection "
            "freeze_language_model fully_sharded_loras"
        ),
    },
    "override_config": Only(NO_TABLE, "Empty it: the model must be the one that its folder describes."),
    "external_lib": Only(UNSET, _OWN_CODE),
    "use_liger": Only(OFF, "Set it to false: its kernels are not the rollout's."),
    "use_fused_kernels": Only(OFF, "Set it to false: the fused log-softmax never holds the logits."),
    "use_remove_padding": Only(OFF, _LENGTHS),
    "tiled_mlp": {"enabled": Only(OFF, UNTESTED), "num_shards": FREE},
    "mtp": {
        "enable": Only(OFF, "Set it to false: multi-token prediction is not certified."),
        **free(
            "_target_ enable_train enable_rollout detach_encoder mtp_loss_scaling_factor speculative_algorithm "
            "speculative_num_steps speculative_eagle_topk speculative_num_draft_tokens method "
            "num_speculative_tokens"
        ),
    },
    **free(
        "_target_ path hf_config_path tokenizer_path use_shm trust_remote_code custom_chat_template "
        "enable_gradient_checkpointing enable_activation_offload lora_alpha target_modules exclude_modules "
        "fused_kernel_options"
    ),
}

ELSEWHERE: Final[Table] = {
    "algorithm.rollout_correction.bypass_mode": Only(
        OFF, "Set it to false: it takes the rollout's log-probabilities for the recompute's, which then never runs."
    ),
    "trainer.v1.trainer_mode": Only(
        Values(("sync",)), "Set it to sync: a trajectory must begin and end under the trainer's weights."
    ),
    "skip.rollout.enable": _RECORDED,
    "skip.rollout_tq.enable": _RECORDED,
    "skip.async_rollout.enable": _RECORDED,
    "ray_kwargs.ray_init.runtime_env.env_vars": Variables(),
    "distillation.enabled": Only(OFF, "Set it to false: only the policy's own log-probabilities are certified."),
}
"""Dotted fields by themselves."""

TOP: Final[Table] = {
    "actor_rollout_ref": {
        "hybrid_engine": Only(ON, "Set it to true: trainer and rollout must take turns."),
        **free("actor ref rollout model nccl_timeout"),
    },
    **free(
        "data critic custom_reward_function reward_model sandbox_fusion reward algorithm distillation "
        "transfer_queue trainer global_profiler skip ray_kwargs"
    ),
}
"""The whole; what has tables of its own, or decides only what is trained, is free here."""
