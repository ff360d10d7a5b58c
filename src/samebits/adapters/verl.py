"""verl: ``actor_rollout_ref.rollout.full_determinism``, its own typed option, as a validated field.

verl itself sets ``VLLM_BATCH_INVARIANT=1`` for it.  Everything else that the row pins is checked or brought along here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from samebits.adapters import files, notes
from samebits.adapters import verl_fields as fields
from samebits.adapters.configuration import ABSENT, literal
from samebits.adapters.judging import Framework, judge, rules_of
from samebits.adapters.meaning import Reading, Stated
from samebits.adapters.outcome import Outcome
from samebits.pins import Row

_ROOT: Final = "actor_rollout_ref"
_ROLLOUT: Final = f"{_ROOT}.rollout"
_OPTION: Final = f"{_ROLLOUT}.full_determinism"
_KWARGS: Final = f"{_ROLLOUT}.engine_kwargs.vllm"

FRAMEWORK: Final = Framework(
    name="verl",
    homes={
        "batch_invariant": _OPTION,
        "async_rollout": f"{_ROLLOUT}.nnodes",
        "refit": f"{_ROLLOUT}.checkpoint_engine.backend",
        "enable_expert_parallel": f"{_ROLLOUT}.expert_parallel_size",
        "tensor_parallel_size": f"{_ROLLOUT}.tensor_model_parallel_size",
        "pipeline_parallel_size": f"{_ROLLOUT}.pipeline_model_parallel_size",
        **{
            name: f"{_ROLLOUT}.{name}"
            for name in (
                "data_parallel_size",
                "gpu_memory_utilization",
                "enforce_eager",
                "max_num_batched_tokens",
                "max_model_len",
                "max_num_seqs",
                "enable_chunked_prefill",
                "enable_prefix_caching",
                "logprobs_mode",
                "quantization",
            )
        },
    },
    arguments=_KWARGS,
    implied={
        "cudagraph_mode": ("FULL_AND_PIECEWISE", "verl sets it"),
        "tensor_parallel_size": (2, "verl's default"),
        "enable_prefix_caching": (True, "verl's default"),
        "enable_chunked_prefill": (True, "verl's default"),
        "logprobs_mode": ("processed_logprobs", "verl's default"),
        "enforce_eager": (True, "verl's default"),
    },
    steps={
        "refit": "Choose a row that refits in place: verl has no other way.",
        "enable_expert_parallel": "Set it to 1: experts' outputs are summed over ranks in another order.",
    },
    notes=notes.VERL,
)

ALWAYS: Final[Mapping[str, Any]] = {"logprobs": 0, "repetition_penalty": 1.0}
"""Sampling parameters that verl's agent loop and server say themselves."""


def verl(source: Path | str | Mapping[str, Any], row: Row, overrides: Sequence[str] = ()) -> Outcome:
    """What ``row`` says to verl's composed configuration in ``source``, a YAML file or a mapping.

    Compose it with ``python -m verl.trainer.main_ppo … --cfg job``; ``overrides`` are laid over it.

    Raises:
        InputError: the configuration cannot be read or is not composed, or the row's engine is not vLLM.
    """
    rules_of(row)
    reading = Reading(files.composed(source, overrides))
    reading.table(_ROLLOUT, fields.ROLLOUT)
    if reading.configuration.get(f"{_ROLLOUT}.dtype") is ABSENT:
        reading.ask("dtype", "bfloat16", f"{_ROLLOUT}.dtype")  # verl's default
    _expert_parallel(reading)
    _speculative(reading)
    _graphs(reading)
    _policy_worker(reading)
    for at, only in fields.ELSEWHERE.items():
        reading.field(at, only)
    reading.always(ALWAYS, _ROLLOUT)
    reading.table("", fields.TOP)
    return judge(reading, row, FRAMEWORK, _fixed(reading), _validation(reading))


def _fixed(reading: Reading) -> dict[str, Stated]:
    return {
        "batch_invariant": Stated(reading.get(_OPTION, False), _OPTION),
        "async_rollout": Stated(False, f"{_ROLLOUT}.nnodes"),  # more nodes than 0 are refused as such
        "refit": Stated("in_place", f"{_ROLLOUT}.checkpoint_engine.backend"),
    }


def _expert_parallel(reading: Reading) -> None:
    at = f"{_ROLLOUT}.expert_parallel_size"
    size = reading.get(at)
    if reading.configuration.get(at) is ABSENT:
        return
    if type(size) is not int or size < 1:
        reading.refuse(at, "a whole number, 1 or more", "Set it to 1.")
        return
    reading.ask("enable_expert_parallel", size > 1, at)


def _speculative(reading: Reading) -> None:
    """Multi-token prediction in the rollout is speculative decoding."""
    mtp = reading.get(f"{_ROLLOUT}.mtp")
    if isinstance(mtp, Mapping) and mtp.get("enable") and mtp.get("enable_rollout"):
        reading.ask("speculative_config", {"method": mtp.get("method")}, f"{_ROLLOUT}.mtp")


def _graphs(reading: Reading) -> None:
    """Sizes go into ``compilation_config``, beside the mode that verl sets itself."""
    at = f"{_ROLLOUT}.cudagraph_capture_sizes"
    if reading.get(at):
        reading.refuse(at, "null: vLLM's own sizes", "Remove it: no other sizes are certified.")


def _policy_worker(reading: Reading) -> None:
    reading.table(f"{_ROOT}.actor", fields.ACTOR)
    reading.table(f"{_ROOT}.model", fields.MODEL)
    at = f"{_ROOT}.actor.strategy"
    strategy = reading.get(at)
    engines = {"fsdp": "fsdp_config", "fsdp2": "fsdp_config", "megatron": "megatron"}
    if not isinstance(strategy, str) or strategy not in engines:
        reading.refuse(at, "'fsdp', 'fsdp2' or 'megatron'", "Choose one of these: no other is read.")
        return
    engine = f"{_ROOT}.actor.{engines[strategy]}"
    reading.table(engine, fields.MEGATRON if strategy == "megatron" else fields.FSDP)
    trained, sampled = reading.get(f"{engine}.dtype"), reading.get(f"{_ROLLOUT}.dtype", "bfloat16")
    if trained is not None and trained != sampled:
        reading.refuse(
            f"{engine}.dtype", f"{literal(sampled)}, as {_ROLLOUT}.dtype says", "Train in the rollout's precision."
        )


def _validation(reading: Reading) -> dict[str, Any] | None:
    """Parameters of validation requests, where they are not those of training ones.

    verl lays ``val_kwargs`` over the request only if the batch says ``validate``, and never trains on such a batch; so
    they may say anything, as long as a training request cannot.
    """
    own = {name: reading.get(f"{_ROLLOUT}.val_kwargs.{name}") for name in ("temperature", "top_p", "top_k")}
    own = {name: value for name, value in own.items() if value is not None}
    same = all(name in reading.request and reading.request[name].value == value for name, value in own.items())
    return None if same else own
