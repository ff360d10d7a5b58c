"""Sampling parameters by the names of vLLM's ``SamplingParams``, and the one set that is certified (rule 6)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

CONFORMING: Final[MappingProxyType[str, Any]] = MappingProxyType(
    {
        "n": 1,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "min_tokens": 0,
        "ignore_eos": False,
        "logit_bias": None,
        "bad_words": None,
        "allowed_token_ids": None,
        "structured_outputs": None,
        "logits_processors": None,
    }
)
"""What a request must say, every field of it: the raw softmax and nothing else.

``top_k`` 0 and −1 both mean *off* (vLLM writes 0).  None means that the feature is not used.
"""
