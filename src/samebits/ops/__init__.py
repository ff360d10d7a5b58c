"""Op sets: the few operations that every model family is written over (``opset`` says which).

``open_op_set("native")`` is row-invariant, ``open_op_set("plain")`` is ordinary torch, the control arm.
"""

from __future__ import annotations

from samebits.ops.choose import OP_SETS, open_op_set
from samebits.ops.opset import Batch, OpSet

__all__ = ["OP_SETS", "Batch", "OpSet", "open_op_set"]
