"""What every engine asks of its settings: the row's gate first, then what the engine can do at all, then a parse.

Each engine adds its own fields and its own misfits; see ``native.settings`` and ``vllm.settings``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from samebits.errors import GateError
from samebits.gate.settings import Accepted, accepted_from_json, check
from samebits.pins import Range, Values
from samebits.recipe import EngineSettings
from samebits.schema import parse

WHERE: Final = "engine"
MANY: Final = Range(1, 10_000_000)
OFF: Final = Values((False,))
SWITCH: Final = Values((True, False))
UNSET: Final = Values(())
_ONE: Final = Values((1,))

SUPPORTED: Final[Mapping[str, Accepted]] = {
    "max_model_len": MANY,
    "max_num_seqs": MANY,
    "max_num_batched_tokens": MANY,
    "block_size": MANY,
    "num_gpu_blocks": MANY,
    "threads": Range(1, 256),
    "enable_chunked_prefill": SWITCH,
    "enable_prefix_caching": OFF,  # a page found again may have been computed under other weights
    "tensor_parallel_size": _ONE,
    "pipeline_parallel_size": _ONE,
    "data_parallel_size": _ONE,
    "decode_context_parallel_size": _ONE,
    "enable_expert_parallel": OFF,
    "speculative_config": UNSET,
    "enable_lora": OFF,
    "kv_connector": UNSET,
    "async_rollout": OFF,
    "logprobs_mode": Values(("raw_logprobs",)),
}
"""What no engine can do but so, whatever a row accepts: a row that is laxer must not make it pretend."""

SettingsT = TypeVar("SettingsT", bound=EngineSettings)


def certified(
    model: type[SettingsT],
    settings: Mapping[str, Any],
    gate: Mapping[str, Any],
    supported: Mapping[str, Accepted],
    *,
    own: Collection[str],
) -> SettingsT:
    """``settings`` as ``model``, once the row's ``[gate.engine]`` table and ``supported`` have passed them.

    ``own`` are the names that ``supported`` is asked about; others are the row's alone to judge.

    Raises:
        GateError: a setting that is unknown, or that the row or the engine does not accept.
        InputError: a malformed gate table or an ill-typed setting.
    """
    check(settings, accepted_from_json(gate, where=f"gate.{WHERE}"), where=WHERE)
    check({name: value for name, value in settings.items() if name in own}, supported, where=WHERE)
    return parse(model, dict(settings), source=WHERE)


def sequence_misfits(settings: EngineSettings, *, slots: int, pages: str) -> list[GateError]:
    """The longest sequence in ``slots`` key slots; ``pages`` says in words what they are."""
    if slots >= settings.max_model_len:
        return []
    return [
        GateError(
            f"{WHERE}.num_gpu_blocks",
            found=pages,
            accepted=f"at least max_model_len = {settings.max_model_len} tokens: one sequence must fit alone",
            next_step="Raise num_gpu_blocks, or lower max_model_len.",
        )
    ]


def prompt_misfits(settings: EngineSettings) -> list[GateError]:
    """The longest prompt in one step, where it must not be cut."""
    if settings.enable_chunked_prefill or settings.max_num_batched_tokens >= settings.max_model_len:
        return []
    return [
        GateError(
            f"{WHERE}.max_num_batched_tokens",
            found=settings.max_num_batched_tokens,
            accepted=f"at least max_model_len = {settings.max_model_len} without chunked prefill",
            next_step="Raise max_num_batched_tokens, or enable chunked prefill.",
        )
    ]
