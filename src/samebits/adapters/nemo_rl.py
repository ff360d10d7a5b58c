"""NeMo RL: ``policy.generation.vllm_cfg.batch_invariant`` as a validated field.

The field is the RFC's; NeMo RL of 2026-08 does not read it, so whoever builds the workers does: it takes ``arguments``,
``environment`` and ``guard`` from the outcome.  Never goes a variable or an argument past the row's gate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from samebits.adapters import files, notes
from samebits.adapters import nemo_rl_fields as fields
from samebits.adapters.configuration import ABSENT, literal
from samebits.adapters.judging import Framework, judge, rules_of
from samebits.adapters.meaning import Reading, Stated
from samebits.adapters.outcome import Outcome
from samebits.pins import Row

_GENERATION: Final = "policy.generation"
_VLLM: Final = f"{_GENERATION}.vllm_cfg"
_OPTION: Final = f"{_VLLM}.batch_invariant"
_ASYNC: Final = "grpo.async_grpo.enabled"

FRAMEWORK: Final = Framework(
    name="NeMo RL",
    homes={
        "batch_invariant": _OPTION,
        "enable_expert_parallel": f"{_VLLM}.expert_parallel_size",
        "data_parallel_size": f"{_VLLM}.expert_parallel_size",
        "quantization": f"{_VLLM}.precision",
        "async_rollout": _ASYNC,
        **{
            name: f"{_VLLM}.{name}"
            for name in (
                "tensor_parallel_size",
                "pipeline_parallel_size",
                "gpu_memory_utilization",
                "max_model_len",
                "enforce_eager",
                "kv_cache_dtype",
                "logprobs_mode",
                "enable_prefix_caching",
            )
        },
    },
    arguments=f"{_GENERATION}.vllm_kwargs",
    implied={"enable_prefix_caching": (True, "NeMo RL turns it on for GPUs of compute capability 8 and newer")},
    steps={
        "refit": "Choose a row that refits in place: NeMo RL has no other way.",
        "enable_expert_parallel": "Set it to 1: experts' outputs are summed over ranks in another order.",
        "data_parallel_size": "Set it to 1: only one GPU per engine is certified.",
        "quantization": "Set it to bfloat16: a quantised rollout computes other bits than a policy worker in bfloat16.",
    },
    notes=notes.NEMO_RL,
)

ALWAYS: Final[Mapping[str, Any]] = {"logprobs": 0, "include_stop_str_in_output": True}
"""Sampling parameters that NeMo RL's worker says itself."""


def nemo_rl(source: Path | str | Mapping[str, Any], row: Row, overrides: Sequence[str] = ()) -> Outcome:
    """What ``row`` says to NeMo RL's configuration in ``source``, a YAML file with its parents beside it or a mapping.

    ``overrides`` are those of NeMo RL's command line: ``++policy.generation.vllm_cfg.batch_invariant=true``.

    Raises:
        InputError: the configuration cannot be read, or the row's engine is not vLLM.
    """
    rules_of(row)  # before the file: a row that cannot certify anything needs no configuration
    reading = Reading(files.nemo_rl(source, overrides))
    reading.table(_GENERATION, fields.GENERATION)
    _precision(reading)
    _expert_parallel(reading)
    _validation(reading)
    _policy_worker(reading)
    for at, only in fields.ELSEWHERE.items():
        reading.field(at, only)
    reading.table("", fields.TOP)
    reading.always(ALWAYS, _GENERATION)
    return judge(reading, row, FRAMEWORK, _fixed(reading))


def _fixed(reading: Reading) -> dict[str, Stated]:
    return {
        "batch_invariant": Stated(reading.get(_OPTION, False), _OPTION),
        "async_rollout": Stated(reading.get(_ASYNC, False), _ASYNC),
        # Weights arrive over IPC or NCCL and are loaded into the live parameters.
        "refit": Stated("in_place", f"{_GENERATION}.refit_transport"),
    }


def _precision(reading: Reading) -> None:
    """``fp8`` quantises the weights after loading (``init_fp8``); vLLM's own dtype stays bfloat16."""
    at = f"{_VLLM}.precision"
    precision = reading.get(at)
    if precision is None:
        reading.refuse(at, "bfloat16 or float32", "State it: NeMo RL has no default.")
        return
    reading.ask("dtype", "bfloat16" if precision == "fp8" else precision, at)
    if precision == "fp8":
        reading.ask("quantization", "fp8", at)
    trained = reading.get("policy.precision")
    if precision != "fp8" and trained is not None and trained != precision:
        reading.refuse("policy.precision", f"{literal(precision)}, as {at} says", "Train in the rollout's precision.")


def _expert_parallel(reading: Reading) -> None:
    """NeMo RL's expert parallel size is vLLM's data parallel times its tensor parallel size."""
    at = f"{_VLLM}.expert_parallel_size"
    size, ranks = reading.get(at), reading.get(f"{_VLLM}.tensor_parallel_size")
    if reading.configuration.get(at) is ABSENT:
        return
    if type(size) is not int or type(ranks) is not int or size < 1 or ranks < 1:
        reading.refuse(at, "a whole number, 1 or more", "Set it to 1.")
        return
    reading.ask("enable_expert_parallel", size > 1, at)
    reading.ask("data_parallel_size", max(1, size // ranks), at)


def _validation(reading: Reading) -> None:
    """Validation must sample as training does.

    Outside of NeMo Gym, NeMo RL itself insists on it (``grpo.setup``).  Inside, its server accepts the validation's
    parameters from any request, so that a training rollout could carry them and nobody would know.
    """
    for name in ("temperature", "top_p", "top_k"):
        at = f"{_GENERATION}.val_{name}"
        trained, validated = reading.get(f"{_GENERATION}.{name}"), reading.configuration.get(at)
        if validated is not ABSENT and validated != trained:
            reading.refuse(
                at,
                f"{literal(trained)}, as {_GENERATION}.{name} says",
                f"Remove it, or write ${{.{name}}}: the engine cannot tell a validation request from a training one.",
            )


def _policy_worker(reading: Reading) -> None:
    reading.table("policy", fields.POLICY)
    enabled = [name for name in ("megatron_cfg", "dtensor_cfg") if reading.get(f"policy.{name}.enabled") is True]
    if len(enabled) != 1:
        reading.refuse(
            "policy.megatron_cfg.enabled",
            "true in exactly one of policy.megatron_cfg and policy.dtensor_cfg",
            "Choose one.",
            found=" and ".join(enabled) or "neither",
        )
        return
    for name in enabled:
        reading.table(f"policy.{name}", fields.MEGATRON if name == "megatron_cfg" else fields.DTENSOR)
