"""vLLM's CUDA build, its own kernels called from the actor: row ``h200-vllm-0.26``.

The only rooms that import vLLM are this one, ``ops.vllm_cpu`` and ``engine.vllm``; here nothing does before
:func:`open_vllm` is called.
"""

from __future__ import annotations

from samebits.ops.vllm.opening import open_vllm

__all__ = ["open_vllm"]
