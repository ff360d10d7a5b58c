"""vLLM's CPU backend, its own kernels called from the actor: row ``cpu-vllm-0.32``.

The only rooms that import vLLM are this one, ``ops.vllm`` and ``engine.vllm``; here nothing does before
:func:`open_vllm_cpu` is called.
"""

from __future__ import annotations

from samebits.ops.vllm_cpu.opening import open_vllm_cpu

__all__ = ["open_vllm_cpu"]
