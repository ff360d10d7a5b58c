"""The real vLLM as rollout engine: 0.26 (CUDA) and 0.32 (CPU) behind one adapter.

vLLM is imported when an engine is constructed, never before: what it reads from the environment at import must have
been set from typed settings by then (:mod:`samebits.engine.vllm.variables`).
"""

from __future__ import annotations

from samebits.engine.vllm.engine import VllmEngine

__all__ = ["ENGINE", "VllmEngine"]

ENGINE = VllmEngine
