"""Digests of weights: whether what arrived is what was sent, bit for bit."""

from __future__ import annotations

from samebits.integrity.compare import Difference, compare
from samebits.integrity.digest import digests, tensor_digest

__all__ = ["Difference", "compare", "digests", "tensor_digest"]
