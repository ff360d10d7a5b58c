"""verl: what a certified configuration becomes, and how each way out of it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from certified_engine import ARGUMENTS, ENVIRONMENT
from samebits.adapters import Adapted, Refused, verl
from samebits.errors import GateError
from samebits.pins import Row

A = "actor_rollout_ref.actor"
M = "actor_rollout_ref.model"
R = "actor_rollout_ref.rollout"
K = f"{R}.engine_kwargs.vllm"
LENGTHS = "Set it to false: rollout and policy worker must see the same layout of sequences."
QUANTISED = "a quantised rollout computes other bits than a policy worker in bfloat16."
RANKS = "a sum over ranks adds in another order than one GPU does."
SOFTMAX = "Sample from the unprocessed softmax: the comparison is of raw logprobs."


def test_a_certified_configuration_becomes_an_engine(accepted: Callable[..., Adapted]) -> None:
    adapted = accepted("verl")
    assert adapted.arguments == ARGUMENTS
    assert adapted.environment == ENVIRONMENT
    assert adapted.sampling == {
        "n": 1,
        "temperature": 1.0,
        "top_p": 1,
        "top_k": -1,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "ignore_eos": False,
        "max_tokens": 512,
        "logprobs": 0,
    }


def test_validation_has_a_guard_of_its_own(accepted: Callable[..., Adapted]) -> None:
    adapted = accepted("verl")
    greedy = {**adapted.sampling, "temperature": 0, "seed": 1}
    assert adapted.validation_guard is not None
    adapted.validation_guard(greedy, request_id="validation")
    with pytest.raises(GateError) as training:
        adapted.guard(greedy, request_id="training")
    assert training.value.field == "request 'training': temperature"
    with pytest.raises(GateError) as other:
        adapted.validation_guard({**greedy, "temperature": 0.6}, request_id="validation")
    assert (other.value.found, other.value.accepted) == ("0.6", "0")


def test_validation_that_samples_alike_needs_no_guard(accepted: Callable[..., Adapted]) -> None:
    assert accepted("verl", f"{R}.val_kwargs.temperature=1.0").validation_guard is None


@pytest.mark.parametrize(
    ("override", "field", "found", "accepted", "next_step"),
    [
        (f"{R}.full_determinism=false", f"{R}.full_determinism", "false, that is batch_invariant = false",
         "batch_invariant = true", "Set it to true: it is how this row is certified."),
        (f"~{R}.full_determinism", f"configuration: {R}.full_determinism", "nothing, that is batch_invariant = false",
         "batch_invariant = true", "Set it to true: it is how this row is certified."),
        (f"{R}.name=sglang", f"{R}.name", "'sglang'", "'vllm'", "Set it to vllm: this row's engine is vLLM."),
        (f"{R}.name=???", f"{R}.name", "'???', which must be set before the run", "a value",
         "Write the value itself."),
        (f"{R}.nnodes=1", f"{R}.nnodes", "1", "0",
         "Set it to 0: a rollout apart from training is asynchronous, and weights change under it."),
        (f"{R}.tensor_model_parallel_size=2", f"{R}.tensor_model_parallel_size", "2, that is tensor_parallel_size = 2",
         "tensor_parallel_size = 1", f"Set it to 1: {RANKS}"),
        (f"~{R}.tensor_model_parallel_size", f"configuration: {R}.tensor_model_parallel_size",
         "nothing: verl's default (tensor_parallel_size = 2)", "1", f"Set it to 1: {RANKS}"),
        (f"{R}.expert_parallel_size=8", f"{R}.expert_parallel_size", "8, that is enable_expert_parallel = true",
         "enable_expert_parallel = false", "Set it to 1: experts' outputs are summed over ranks in another order."),
        (f"{R}.enable_prefix_caching=true", f"{R}.enable_prefix_caching", "true", "false",
         "Set it to false: a cached prefix was computed in another batch, under other weights perhaps."),
        (f"~{R}.max_num_seqs", f"configuration: {R}.max_num_seqs", "nothing", "1 … 256",
         "State it: vLLM would choose for itself."),
        (f"{R}.max_model_len=null", f"{R}.max_model_len", "null", "32 … 4096",
         "Choose another: the row is certified with nothing else."),
        (f"{R}.quantization=fp8", f"{R}.quantization", "'fp8'", "unset", f"Leave it out: {QUANTISED}"),
        (f"~{K}.compilation_config", f"configuration: {K}.compilation_config.cudagraph_mode",
         "nothing: verl sets it (cudagraph_mode = 'FULL_AND_PIECEWISE')", "'FULL' or 'NONE'",
         "Choose another: the row is certified with nothing else."),
        (f"{K}.compilation_config='{{\"cudagraph_mode\": \"PIECEWISE\"}}'", f"{K}.compilation_config",
         "'{\"cudagraph_mode\": \"PIECEWISE\"}', that is cudagraph_mode = 'PIECEWISE'",
         "cudagraph_mode = 'FULL' or 'NONE'", "Choose another: the row is certified with nothing else."),
        (f"++{K}.kv_cache_dtype=fp8", f"{K}.kv_cache_dtype", "'fp8'", "'auto'",
         "Set it to 'auto': rounded keys and values are read by the rollout alone."),
        (f"++{K}.max_num_seqs=8", f"{K}.max_num_seqs", "8", f"64, as {R}.max_num_seqs says", "Say it once."),
        (f"++{K}.seed=3", f"{K}.seed", "3", "nothing: the framework passes this one itself",
         "Remove it: verl says it itself."),
        (f"++{R}.mtp={{enable: true, enable_rollout: true, method: mtp}}", f"{R}.mtp",
         "{'enable': True, 'enable_rollout': True, 'method': 'mtp'}, that is speculative_config = {'method': 'mtp'}",
         "speculative_config = unset",
         "Leave it out: a draft changes which positions are computed together, and which tokens are sampled."),
        (f"++{R}.cudagraph_capture_sizes=[1,2]", f"{R}.cudagraph_capture_sizes", "[1, 2]", "null: vLLM's own sizes",
         "Remove it: no other sizes are certified."),
        (f"{R}.temperature=0.6", f"{R}.temperature", "0.6", "1.0", SOFTMAX),
        (f"{R}.top_k=50", f"{R}.top_k", "50", "0 or -1 or unset", SOFTMAX),
        (f"~{R}.temperature", f"configuration: {R}.temperature", "nothing", "1.0",
         "State it: it decides what is sampled."),
        (f"++{R}.do_sample=false", f"{R}.do_sample", "false", "true",
         "Set it to true: greedy decoding is no sample of the policy."),
        (f"{R}.calculate_log_probs=false", f"{R}.calculate_log_probs", "false", "true",
         "Set it to true: there is nothing to compare without them."),
        (f"++{R}.multi_turn.enable=true", f"{R}.multi_turn.enable", "true", "false",
         "Set it to false: only single-turn rollouts are certified."),
        (f"++{R}.skip.enable=true", f"{R}.skip.enable", "true", "false",
         "Set it to false: rollouts read from a disk were made by another engine."),
        ("++skip.rollout.enable=true", "skip.rollout.enable", "true", "false",
         "Set it to false: rollouts read from a disk were made by another engine."),
        ("++trainer.v1.trainer_mode=separate_async", "trainer.v1.trainer_mode", "'separate_async'", "'sync'",
         "Set it to sync: a trajectory must begin and end under the trainer's weights."),
        ("++ray_kwargs.ray_init.runtime_env.env_vars={VLLM_USE_V1: '1'}",
         "ray_kwargs.ray_init.runtime_env.env_vars.VLLM_USE_V1", "a value",
         "no environment variable of the configuration's own",
         "Remove it: what vLLM's switches say follows from the typed options and the row."),
        (f"++{R}.over_sample_rate=0.1", f"{R}.over_sample_rate", "0.1", "0",
         "Set it to 0: it aborts the longest trajectories, so that the sample is biased."),
        (f"++{R}.disaggregation.enabled=true", f"{R}.disaggregation.enabled", "true", "false",
         "Set it to false: prefill elsewhere brings cache pages from elsewhere."),
        (f"++{R}.enable_prefix_cache=true", f"{R}.enable_prefix_cache", "an unknown field, true",
         "fields whose meaning the kit knows", "Did you mean 'enable_prefix_caching'?"),
        ("algorithm.rollout_correction.bypass_mode=true", "algorithm.rollout_correction.bypass_mode", "true", "false",
         "Set it to false: it takes the rollout's log-probabilities for the recompute's, which then never runs."),
        (f"++{A}.use_dynamic_bsz=true", f"{A}.use_dynamic_bsz", "true", "false", LENGTHS),
        (f"{A}.use_remove_padding=true", f"{A}.use_remove_padding", "true", "false", LENGTHS),
        (f"~{A}.use_torch_compile", f"configuration: {A}.use_torch_compile", "nothing", "false",
         "Set it to false: a compiled log-softmax is another one."),
        (f"++{A}.ulysses_sequence_parallel_size=2", f"{A}.ulysses_sequence_parallel_size", "2", "1",
         f"Set it to 1: {RANKS}"),
        (f"{A}.fsdp_config.dtype=float16", f"{A}.fsdp_config.dtype", "'float16'", "'bfloat16' or 'float32'",
         "Compute in the rollout's precision."),
        (f"{A}.fsdp_config.dtype=float32", f"{A}.fsdp_config.dtype", "'float32'", f"'bfloat16', as {R}.dtype says",
         "Train in the rollout's precision."),
        (f"{A}.strategy=veomni", f"{A}.strategy", "'veomni'", "'fsdp', 'fsdp2' or 'megatron'",
         "Choose one of these: no other is read."),
        (f"{M}.lora_rank=8", f"{M}.lora_rank", "8", "0",
         "Set it to 0: merged into a weight, an adapter is rounded with it; beside the layer it is not."),
        ("actor_rollout_ref.hybrid_engine=false", "actor_rollout_ref.hybrid_engine", "false", "true",
         "Set it to true: trainer and rollout must take turns."),
        ("++async_training.staleness_threshold=1", "async_training", "an unknown field, {'staleness_threshold': 1}",
         "fields whose meaning the kit knows", "Remove it."),
    ],
)  # fmt: skip
def test_each_way_out_is_refused(
    refused: Callable[..., list[tuple[str, ...]]], override: str, field: str, found: str, accepted: str, next_step: str
) -> None:
    said = refused("verl", override)
    assert (field, found, accepted, next_step) in said
    assert {one[0] for one in said} == {field}


def test_megatron_has_a_table_of_its_own(row: Row, verl_config: dict[str, Any]) -> None:
    verl_config["actor_rollout_ref"]["actor"] |= {
        "strategy": "megatron",
        "megatron": {
            "dtype": "bfloat16",
            "context_parallel_size": 2,
            "use_remove_padding": True,
            "override_transformer_config": {"recompute_method": None, "moe_router_dtype": "fp32"},
        },
    }
    outcome = verl(verl_config, row)
    assert isinstance(outcome, Refused)
    assert [(one.field, one.found) for one in outcome.conflicts] == [
        (f"configuration: {A}.megatron.context_parallel_size", "2"),
        (f"configuration: {A}.megatron.override_transformer_config.moe_router_dtype", "an unknown field, 'fp32'"),
        (f"configuration: {A}.megatron.use_remove_padding", "true"),
    ]


def test_verls_own_precision_is_bfloat16(accepted: Callable[..., Adapted]) -> None:
    assert accepted("verl", f"~{R}.dtype").arguments["dtype"] == "bfloat16"


def test_interpolations_of_verl_are_resolved(row: Row, verl_config: dict[str, Any]) -> None:
    verl_config["data"] = {"max_response_length": 256}
    verl_config["actor_rollout_ref"]["rollout"]["response_length"] = "${oc.select:data.max_response_length,512}"
    outcome = verl(verl_config, row)
    assert isinstance(outcome, Adapted)
    assert outcome.sampling["max_tokens"] == 256
