"""DeepSeek-V4 in structure: hyper-connections, compressed and selected keys, hashed and scored experts, FP8."""

from __future__ import annotations

from samebits.models.ds4.config import Ds4Config
from samebits.models.ds4.decoder import DeepSeekV4

__all__ = ["DeepSeekV4", "Ds4Config"]
