"""The real vLLM as rollout engine: 0.26 (CUDA) and 0.32 (CPU) behind one adapter.

vLLM is imported when an engine is constructed, never before: what it reads from the environment at import must have
been set from typed settings by then (:mod:`samebits.engine.vllm.variables`).  The adapter itself is imported when it is
asked for: a server that loads the gate (:mod:`samebits.engine.vllm.http`) needs none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samebits.engine.vllm.engine import VllmEngine

    ENGINE = VllmEngine

__all__ = ["ENGINE", "VllmEngine"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.engine").VllmEngine
