"""The rollout engine ``native``: torch only, on the CPU, and not the actor's code path.

Continuous batching over a paged cache with chunked prefill and preemption; the sampler is exact and counter-based.
"""

from __future__ import annotations

from samebits.engine.native.engine import NativeEngine, draw

ENGINE = NativeEngine
"""What the worker constructs for ``kind = "native"``."""

__all__ = ["ENGINE", "NativeEngine", "draw"]
