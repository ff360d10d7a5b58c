"""Op sets: the few operations that every model family is written over (``opset`` says which).

``opset("native")`` is row-invariant, ``opset("plain")`` is ordinary torch, the control arm.
"""

from __future__ import annotations

from samebits.ops.choose import OP_SETS, opset
from samebits.ops.opset import Batch, OpSet

__all__ = ["OP_SETS", "Batch", "OpSet", "opset"]
