"""Between vLLM's arguments and the kit's engine settings.

The settings that a row's gate names are vLLM's arguments by vLLM's names, except that a table of vLLM's is taken apart
(``compilation_config.mode`` is ``compilation_mode``) and that what vLLM reads from its environment is a setting too.
Names are those of :class:`samebits.recipe.VllmSettings`; arguments those of ``EngineArgs`` in vLLM 0.26 and 0.32.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

INSIDE: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "compilation_config": {
            "mode": "compilation_mode",
            "custom_ops": "custom_ops",
            "cudagraph_mode": "cudagraph_mode",
        },
        "kernel_config": {"ir_op_priority": "ir_op_priority", "moe_backend": "moe_backend"},
        "attention_config": {"backend": "attention_backend"},
        "kv_transfer_config": {"kv_connector": "kv_connector"},
    }
)
"""vLLM's tables: argument → key inside → setting."""

RENAMED: Final[Mapping[str, str]] = MappingProxyType({"num_gpu_blocks_override": "num_gpu_blocks"})
"""Argument → setting, where the names differ."""

NOT_ARGUMENTS: Final = frozenset(
    {
        "kind",
        "batch_invariant",
        "attention_split_kv",
        "model_runner",
        "flashinfer_sampler",
        "threads",
        "async_rollout",
        "refit",
    }
)
"""Settings that are no arguments of vLLM: environment variables, or how the engine is used."""

INSIDE_ONLY: Final = frozenset({"compilation_mode", "custom_ops", "cudagraph_mode", "kv_connector", "num_gpu_blocks"})
"""Settings that are said inside a table of vLLM's, or under another name: vLLM has no argument called so."""

NO_ARGUMENT: Final = "no argument of vLLM: "
"""Before the name of what looks like an argument and is only a setting; no row names it."""

_TABLE_OF: Final = {
    setting: (argument, key)
    for argument, keys in INSIDE.items()
    for key, setting in keys.items()
    if argument != "attention_config" and setting != "moe_backend"  # these have an argument of their own too
}
_ARGUMENT_OF: Final = {setting: argument for argument, setting in RENAMED.items()}


def settings_of(argument: str, value: Any) -> Iterator[tuple[str, Any, str]]:
    """The settings behind one vLLM argument: name, value, and the argument's dotted path.

    What a table of vLLM's says beyond the known keys comes out under its dotted path, which no row names.
    """
    if argument in NOT_ARGUMENTS or argument in INSIDE_ONLY:
        yield NO_ARGUMENT + argument, value, argument
        return
    if argument not in INSIDE:
        yield RENAMED.get(argument, argument), value, argument
        return
    table = _table(value)
    if table is None:
        if value is not None:
            yield argument, value, argument
        return
    for key, inner in table.items():
        path = f"{argument}.{key}"
        yield INSIDE[argument].get(key, path), inner, path


def settings_named(argument: str) -> set[str]:
    """All settings that one vLLM argument may state."""
    return set(INSIDE[argument].values()) if argument in INSIDE else {RENAMED.get(argument, argument)}


def argument_path(setting: str) -> str:
    """Where ``setting`` is said among vLLM's arguments, for instance ``compilation_config.mode``."""
    if setting in _TABLE_OF:
        return ".".join(_TABLE_OF[setting])
    return _ARGUMENT_OF.get(setting, setting)


def arguments_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``settings`` as arguments of ``vllm.LLM``; what is unset is left out, and so are the environment's."""
    arguments: dict[str, Any] = {}
    for setting, value in settings.items():
        if setting in NOT_ARGUMENTS or value is None:
            continue
        if setting in _TABLE_OF:
            argument, key = _TABLE_OF[setting]
            arguments.setdefault(argument, {})[key] = value
        else:
            arguments[_ARGUMENT_OF.get(setting, setting)] = value
    return arguments


def environment_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables of the workers that ``settings`` ask for; vLLM reads them when it is imported."""
    variables: dict[str, str] = {}
    switches = {"batch_invariant": "VLLM_BATCH_INVARIANT", "flashinfer_sampler": "VLLM_USE_FLASHINFER_SAMPLER"}
    if settings.get("attention_backend") == "CPU_ATTN":  # elsewhere vLLM does not know the variable
        switches["attention_split_kv"] = "VLLM_CPU_ATTN_SPLIT_KV"
    for setting, variable in switches.items():
        if setting in settings:
            variables[variable] = "1" if settings[setting] else "0"
    if "model_runner" in settings:
        variables["VLLM_USE_V2_MODEL_RUNNER"] = "1" if settings["model_runner"] == "V2" else "0"
    if "threads" in settings:
        variables["OMP_NUM_THREADS"] = str(settings["threads"])
    return variables


def _table(value: Any) -> Mapping[str, Any] | None:
    """A table, also as the JSON text that a command line takes."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, Mapping) else None
