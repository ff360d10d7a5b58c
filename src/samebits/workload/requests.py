"""What goes into each request of a round: prompt, random stream, sampling, arrival."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """One request of a round; field for field what ``engine.protocol.Request`` needs, and its group."""

    request_id: str
    token_ids: list[int]
    group: int
    """Index of the problem: answers to one problem are one group."""
    max_tokens: int
    seed: int
    stop_token_ids: list[int]
    sampling: Mapping[str, Any]
    arrival_step: int


def request_seed(workload_seed: int, round_index: int, problem: int, sample: int) -> int:
    """63 bits, unrelated between any two requests; 63 since vLLM's ``seed`` is a signed 64-bit integer."""
    words = f"samebits.request.v1\0{workload_seed}\0{round_index}\0{problem}\0{sample}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1


def response_limit(seed: int, fewest: int | None, most: int) -> int:
    """Tokens that the request with this ``seed`` may generate: ``most``, or evenly from ``fewest`` to ``most``."""
    return most if fewest is None else fewest + seed % (most - fewest + 1)


def arrival_step(problem: int, sample: int, *, problems: int, samples: int, spread: int) -> int:
    """The engine step at which a request arrives: 0 … ``spread``, evenly.

    All problems' first samples come before any second one, so that prompts of all lengths arrive together.
    """
    return (sample * problems + problem) * (spread + 1) // (problems * samples)
