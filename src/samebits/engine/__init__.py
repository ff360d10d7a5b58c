"""Rollout engines: what one answers (``protocol``), its worker process (``worker``), and the engine ``native``.

Importing this package does not import torch: the parent needs the protocol only.
"""

from __future__ import annotations

from samebits.engine.protocol import (
    Constructed,
    Counters,
    Generated,
    Refitted,
    Request,
    Sealed,
    Trajectory,
    WholeSequence,
)

__all__ = ["Constructed", "Counters", "Generated", "Refitted", "Request", "Sealed", "Trajectory", "WholeSequence"]
