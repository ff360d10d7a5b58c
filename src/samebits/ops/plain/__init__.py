"""The control arm: what a person would write without thinking of exactness."""

from __future__ import annotations

from samebits.ops.plain.opset import Plain

__all__ = ["Plain"]
