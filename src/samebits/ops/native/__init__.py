"""The row-invariant op set: a row's result depends on that row alone."""

from __future__ import annotations

from samebits.ops.native.opset import Native

__all__ = ["Native"]
