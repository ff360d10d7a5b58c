"""NeMo RL: what a certified configuration becomes, and how each way out of it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from certified_engine import ARGUMENTS, ENVIRONMENT
from samebits.adapters import Adapted, Refused, nemo_rl
from samebits.errors import GateError, InputError
from samebits.pins import Row

V = "policy.generation.vllm_cfg"
K = "policy.generation.vllm_kwargs"
QUANTISED = "a quantised rollout computes other bits than a policy worker in bfloat16."
RANKS = "a sum over ranks adds in another order than one GPU does."


def test_a_certified_configuration_becomes_an_engine(accepted: Callable[..., Adapted]) -> None:
    adapted = accepted("NeMo RL")
    assert adapted.arguments == ARGUMENTS
    assert adapted.environment == ENVIRONMENT
    assert adapted.sampling == {
        "n": 1,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "max_tokens": 1024,
        "logprobs": 0,
        "stop": None,
        "stop_token_ids": None,
        "include_stop_str_in_output": True,
    }
    assert adapted.validation_guard is None


def test_a_row_that_was_never_run_is_called_so(row: Row, nemo_rl_config: dict[str, Any]) -> None:
    never = nemo_rl(nemo_rl_config, row)
    certified = nemo_rl(nemo_rl_config, row.model_copy(update={"status": "certified here"}))
    assert isinstance(never, Adapted)
    assert isinstance(certified, Adapted)
    assert never.notes[:-1] == certified.notes
    assert never.notes[-1] == (
        "Row toy-vllm has never been run: accepted means that nothing stands in the way, not that anybody saw the bits "
        "agree."
    )


def test_origins_say_who_states_each_setting(accepted: Callable[..., Adapted]) -> None:
    origins = accepted("NeMo RL", f"{K}.max_num_seqs=8").origins
    assert origins["max_num_seqs"] == f"command line: {K}.max_num_seqs"
    assert origins["quantization"] == "row toy-vllm"
    assert origins["kind"] == "NeMo RL"
    assert origins["num_gpu_blocks"] == f"configuration: {K}.num_gpu_blocks_override"


@pytest.mark.parametrize(
    ("override", "field", "found", "accepted", "next_step"),
    [
        (f"{V}.batch_invariant=false", f"{V}.batch_invariant", "false", "true",
         "Set it to true: it is how this row is certified."),
        (f"{V}.batch_invariant='true'", f"{V}.batch_invariant", "'true'", "false or true", "Write true or false."),
        (f"~{V}.batch_invariant", f"configuration: {V}.batch_invariant", "nothing, that is batch_invariant = false",
         "batch_invariant = true", "Set it to true: it is how this row is certified."),
        (f"{V}.logprobs_mode=processed_logprobs", f"{V}.logprobs_mode", "'processed_logprobs'", "'raw_logprobs'",
         "Set it to 'raw_logprobs': the actor's log-probabilities are raw, and so must the rollout's be."),
        (f"{V}.precision=fp8", f"{V}.precision", "'fp8', that is quantization = 'fp8'", "quantization = unset",
         f"Set it to bfloat16: {QUANTISED}"),
        (f"{V}.kv_cache_dtype=fp8", f"{V}.kv_cache_dtype", "'fp8'", "'auto'",
         "Set it to 'auto': rounded keys and values are read by the rollout alone."),
        (f"{V}.tensor_parallel_size=2", f"{V}.tensor_parallel_size", "2", "1", f"Set it to 1: {RANKS}"),
        (f"{V}.pipeline_parallel_size=2", f"{V}.pipeline_parallel_size", "2", "1",
         "Set it to 1: only one GPU per engine is certified."),
        (f"{V}.max_model_len=8192", f"{V}.max_model_len", "8192", "32 … 4096",
         "Choose another: the row is certified with nothing else."),
        (f"{V}.enforce_eager=true", f"{V}.enforce_eager", "true", "false",
         "Set it to false: the row is certified with nothing else."),
        (f"~{V}.enable_prefix_caching", f"configuration: {V}.enable_prefix_caching",
         "nothing: NeMo RL turns it on for GPUs of compute capability 8 and newer (enable_prefix_caching = true)",
         "false", "Set it to false: a cached prefix was computed in another batch, under other weights perhaps."),
        (f"~{K}.max_num_seqs", f"configuration: {K}.max_num_seqs", "nothing", "1 … 256",
         "State it: vLLM would choose for itself."),
        (f"~{K}.compilation_config", f"configuration: {K}.compilation_config.cudagraph_mode", "nothing",
         "'FULL' or 'NONE'", "State it: vLLM would choose for itself."),
        (f"++{K}.compilation_config.mode=3", f"{K}.compilation_config.mode", "3, that is compilation_mode = 3",
         "compilation_mode = 0", "Set it to 0: the row is certified with nothing else."),
        (f"++{K}.compilation_config.backend=eager", f"{K}.compilation_config.backend", "an unknown setting, 'eager'",
         "the settings that [gate.engine] of row toy-vllm names", "Remove it."),
        (f"++{K}.kv_cache_dtyp=auto", f"{K}.kv_cache_dtyp", "an unknown setting, 'auto'",
         "the settings that [gate.engine] of row toy-vllm names", "Did you mean 'kv_cache_dtype'?"),
        (f"++{K}.cudagraph_mode=FULL", f"{K}.cudagraph_mode", "an unknown setting, 'FULL'",
         "the settings that [gate.engine] of row toy-vllm names", f"Say it in {K}.compilation_config.cudagraph_mode."),
        (f"++{K}.num_gpu_blocks=7", f"{K}.num_gpu_blocks", "an unknown setting, 7",
         "the settings that [gate.engine] of row toy-vllm names", f"Say it in {K}.num_gpu_blocks_override."),
        (f"++{K}.batch_invariant=true", f"{K}.batch_invariant", "an unknown setting, true",
         "the settings that [gate.engine] of row toy-vllm names", "Remove it."),
        (f"++{K}.threads=4", f"{K}.threads", "an unknown setting, 4",
         "the settings that [gate.engine] of row toy-vllm names", "Remove it."),
        ("~policy.generation.max_new_tokens", "configuration: policy.generation.max_new_tokens", "nothing",
         "a whole number, 1 … 10000000",
         "State it: it decides what is sampled."),
        (f"++{K}.speculative_config={{method: eagle}}", f"{K}.speculative_config", "{'method': 'eagle'}", "unset",
         "Leave it out: a draft changes which positions are computed together, and which tokens are sampled."),
        (f"++{K}.kv_transfer_config={{kv_connector: nixl}}", f"{K}.kv_transfer_config.kv_connector", "'nixl'", "unset",
         "Leave it out: cache pages from elsewhere were computed elsewhere."),
        (f"++{K}.enable_prefix_caching=false", f"{K}.enable_prefix_caching", "false",
         "nothing: the framework passes this one itself",
         f"Say it in {V}.enable_prefix_caching; here NeMo RL would stop with a duplicate keyword."),
        (f"++{V}.env_vars={{VLLM_BATCH_INVARIANT: '1'}}", f"{V}.env_vars.VLLM_BATCH_INVARIANT", "a value",
         "no environment variable of the configuration's own",
         "Remove it: what vLLM's switches say follows from the typed options and the row."),
        (f"++{V}.env_vars={{NCCL_ALGO: Ring}}", f"{V}.env_vars.NCCL_ALGO", "a value",
         "no environment variable of the configuration's own",
         "Remove it: the workers' environment is the row's alone."),
        (f"++{V}.tensor_paralel_size=1", f"{V}.tensor_paralel_size", "an unknown field, 1",
         "fields whose meaning the kit knows", "Did you mean 'tensor_parallel_size'?"),
        (f"++{V}.expose_http_server=true", f"{V}.expose_http_server", "true", "false",
         "Set it to false: NeMo RL's own server takes sampling parameters per request, past this guard."),
        (f"++{V}.logprobs_mode=${{oc.env:MODE}}", f"{V}.logprobs_mode",
         "'${oc.env:MODE}', which depends on the environment of whoever starts the run", "a value",
         "Write the value itself."),
        ("policy.generation.temperature=0.7", "policy.generation.temperature", "0.7", "1.0",
         "Sample from the unprocessed softmax: the comparison is of raw logprobs."),
        ("policy.generation.top_p=0.95", "policy.generation.top_p", "0.95", "1.0",
         "Sample from the unprocessed softmax: the comparison is of raw logprobs."),
        ("policy.generation.top_k=20", "policy.generation.top_k", "20", "0 or -1 or unset",
         "Sample from the unprocessed softmax: the comparison is of raw logprobs."),
        ("policy.generation.stop_strings=[stop]", "policy.generation.stop_strings", "['stop']", "unset or empty",
         "Remove it: a text can end a response inside a token. Token ids (stop_token_ids) are accepted."),
        ("++policy.generation.bad_words=[word]", "policy.generation.bad_words", "['word']", "unset or empty",
         "Sample from the unprocessed softmax: the comparison is of raw logprobs."),
        ("++policy.generation.ignore_eos=true", "policy.generation.ignore_eos", "true", "false",
         "Let a response end at its end."),
        ("policy.generation.val_temperature=0.0", "policy.generation.val_temperature", "0.0",
         "1.0, as policy.generation.temperature says",
         "Remove it, or write ${.temperature}: the engine cannot tell a validation request from a training one."),
        ("policy.generation.backend=sglang", "policy.generation.backend", "'sglang'", "'vllm'",
         "Set it to vllm: this row's engine is vLLM."),
        ("++policy.generation.quant_cfg=nvfp4.yaml", "policy.generation.quant_cfg", "'nvfp4.yaml'", "unset",
         f"Remove it: {QUANTISED}"),
        ("++policy.generation.real_quant=true", "policy.generation.real_quant", "true", "false",
         f"Remove it: {QUANTISED}"),
        ("++policy.generation.refit_transport=vllm_s3_sparse", "policy.generation.refit_transport",
         "'vllm_s3_sparse'", "unset", "Set it to null (IPC or NCCL): a transport of differences is not certified."),
        ("loss_fn.force_on_policy_ratio=true", "loss_fn.force_on_policy_ratio", "true", "false",
         "Set it to false: with it the recompute never runs, and the loss compares a value with itself."),
        ("grpo.async_grpo.enabled=true", "grpo.async_grpo.enabled", "true, that is async_rollout = true",
         "async_rollout = false", "Set it to false: a trajectory must begin and end under the trainer's weights."),
        ("grpo.max_rollout_turns=4", "grpo.max_rollout_turns", "4", "1",
         "Set it to 1: only single-turn rollouts are certified."),
        ("++env.should_use_nemo_gym=true", "env.should_use_nemo_gym", "true", "false",
         "Set it to false: NeMo Gym talks to the engine over HTTP, past this guard."),
        ("++policy.sequence_packing.enabled=true", "policy.sequence_packing.enabled", "true", "false",
         "Set it to false: rollout and policy worker must see the same layout of sequences."),
        ("policy.dtensor_cfg.context_parallel_size=2", "policy.dtensor_cfg.context_parallel_size", "2", "1",
         f"Set it to 1: {RANKS}"),
        ("++policy.dtensor_cfg.lora_cfg.enabled=true", "policy.dtensor_cfg.lora_cfg.enabled", "true", "false",
         "Set it to false: merged into a weight, an adapter is rounded with it; beside the layer it is not."),
        ("++policy.dtensor_cfg.new_parallel_size=2", "policy.dtensor_cfg.new_parallel_size", "an unknown field, 2",
         "fields whose meaning the kit knows", "Did you mean 'context_parallel_size'?"),
        (f"{V}.precision=float32", "configuration: policy.precision", "'bfloat16'", f"'float32', as {V}.precision says",
         "Train in the rollout's precision."),
        ("policy.megatron_cfg.enabled=true", "policy.megatron_cfg.enabled", "megatron_cfg and dtensor_cfg",
         "true in exactly one of policy.megatron_cfg and policy.dtensor_cfg", "Choose one."),
        ("++async_rl.enabled=true", "async_rl", "an unknown field, {'enabled': True}",
         "fields whose meaning the kit knows", "Remove it."),
    ],
)  # fmt: skip
def test_each_way_out_is_refused(
    refused: Callable[..., list[tuple[str, ...]]], override: str, field: str, found: str, accepted: str, next_step: str
) -> None:
    assert refused("NeMo RL", override) == [(field, found, accepted, next_step)]


def test_expert_parallel_is_data_parallel_in_vllm(refused: Callable[..., list[tuple[str, ...]]]) -> None:
    at = f"{V}.expert_parallel_size"
    assert refused("NeMo RL", f"{at}=4") == [
        (at, "4, that is enable_expert_parallel = true", "enable_expert_parallel = false",
         "Set it to 1: experts' outputs are summed over ranks in another order."),
        (at, "4, that is data_parallel_size = 4", "data_parallel_size = 1",
         "Set it to 1: only one GPU per engine is certified."),
    ]  # fmt: skip
    assert refused("NeMo RL", f"{at}=null") == [(at, "null", "a whole number, 1 or more", "Set it to 1.")]


def test_megatron_is_read_only_if_it_is_enabled(
    accepted: Callable[..., Adapted], refused: Callable[..., list[tuple[str, ...]]]
) -> None:
    accepted("NeMo RL")  # with tensor_model_parallel_size = 8 in the table that is off
    switched = ("policy.megatron_cfg.enabled=true", "policy.dtensor_cfg.enabled=false")
    step = f"Set it to 1: {RANKS}"
    assert refused("NeMo RL", *switched) == [
        ("configuration: policy.megatron_cfg.tensor_model_parallel_size", "8", "1", step)
    ]


def test_two_fields_may_not_disagree(refused: Callable[..., list[tuple[str, ...]]]) -> None:
    moe = (f"++{K}.moe_backend=triton", f"++{K}.kernel_config={{moe_backend: auto}}")
    fields = [one[0] for one in refused("NeMo RL", *moe)]
    assert f"{K}.kernel_config.moe_backend" in fields
    assert refused("NeMo RL", f"++{K}.quantization=modelopt", f"{V}.precision=fp8")[0] == (
        f"{V}.precision",
        "'fp8'",
        f"'modelopt', as {K}.quantization says",
        "Say it once.",
    )


def test_all_conflicts_come_at_once_in_order_of_the_fields(refused: Callable[..., list[tuple[str, ...]]]) -> None:
    found = refused("NeMo RL", "policy.generation.top_p=0.9", f"{V}.batch_invariant=false", "grpo.max_rollout_turns=2")
    assert [one[0] for one in found] == ["grpo.max_rollout_turns", "policy.generation.top_p", f"{V}.batch_invariant"]


def test_an_unresolvable_value_matters_only_where_it_decides(
    row: Row, nemo_rl_config: dict[str, Any], refused: Callable[..., list[tuple[str, ...]]]
) -> None:
    nemo_rl_config["logger"] = {"name": "${nowhere}", "host": "${oc.env:HOST}"}
    assert isinstance(nemo_rl(nemo_rl_config, row), Adapted)
    [(field, found, accepted, step)] = refused("NeMo RL", f"{V}.max_model_len=${{nowhere}}")
    assert (field, accepted, step) == (f"{V}.max_model_len", "a value", "Write the value itself.")
    assert found.startswith("'${nowhere}', which cannot be resolved (Interpolation key 'nowhere' not found")


def test_nothing_at_all_is_refused_field_by_field(row: Row) -> None:
    outcome = nemo_rl({}, row)
    assert isinstance(outcome, Refused)
    fields = [one.field.removeprefix("configuration: ") for one in outcome.conflicts]
    assert fields == sorted(fields)
    assert {"policy.generation.backend", f"{V}.batch_invariant", f"{V}.precision", "policy.megatron_cfg.enabled"} <= {
        *fields
    }


def test_the_guard_judges_every_request(accepted: Callable[..., Adapted]) -> None:
    adapted = accepted("NeMo RL")
    request = {**adapted.sampling, "seed": 7}
    adapted.guard(request, request_id="r1")
    assert [one.field for one in adapted.guard.conflicts(adapted.sampling, request_id="r2")] == ["request 'r2': seed"]
    with pytest.raises(GateError) as caught:
        adapted.guard({**request, "top_k": 50, "logit_bias": {"3": 1.0}}, request_id="r3")
    assert caught.value.to_dict() == {
        "error": "refused",
        "field": "request 'r3': top_k",
        "found": "50",
        "accepted": "0 or -1 or unset",
        "next_step": "Sample from the unprocessed softmax, or leave this request out of the certification. "
        "1 more conflict(s): request 'r3': logit_bias.",
    }


def test_the_row_narrows_the_guard(accepted: Callable[..., Adapted]) -> None:
    guard = accepted("NeMo RL").guard
    assert not guard.rules["ignore_eos"].accepts(True)
    assert guard.rules["stop_token_ids"].accepts([3])


def test_a_row_of_another_engine_is_bad_input() -> None:
    from samebits import pins  # noqa: PLC0415  # the one test that needs a row of the repository

    with pytest.raises(InputError) as caught:
        nemo_rl({}, pins.load("cpu")[0])
    assert (caught.value.field, caught.value.found, caught.value.accepted) == (
        "row",
        "'cpu'",
        "a row whose engine is vLLM",
    )
