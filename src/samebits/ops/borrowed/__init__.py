"""Op sets made of another engine's own forward operations, with gradients of ours."""

from __future__ import annotations

from samebits.ops.borrowed.opset import Borrowed
from samebits.ops.borrowed.primitives import Primitives

__all__ = ["Borrowed", "Primitives"]
