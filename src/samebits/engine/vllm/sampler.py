"""The engine's own sampler alone: many draws from given logits, for its chi-square test (rule 6)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from samebits.engine.vllm.live import Live

_ROWS: Final = 256
"""Requests that draw side by side, each from a stream of its own, as in a batch."""


def draw(live: Live, logits: Sequence[float], samples: int, seed: int, *, is_v2: bool) -> list[int]:
    """How often each token comes in ``samples`` draws; every row is a request with the seed ``seed`` + its number."""
    row = torch.tensor(logits, dtype=torch.float32, device=live.device)
    counts = torch.zeros(len(logits), dtype=torch.int64, device=live.device)
    rounds = _v2(row, seed) if is_v2 else _v1(live, row, seed)
    left = samples
    while left > 0:
        tokens = next(rounds)[:left]
        counts += torch.bincount(tokens.to(torch.int64), minlength=len(logits))
        left -= len(tokens)
    return [int(count) for count in counts.tolist()]


def _v1(live: Live, row: Tensor, seed: int) -> Iterator[Tensor]:
    """``TopKTopPSampler`` without top-k and top-p; each row has a generator, which it keeps from draw to draw."""
    generators = {}
    for number in range(_ROWS):
        generators[number] = torch.Generator(device=row.device)
        generators[number].manual_seed(seed + number)
    while True:
        # The sampler may write into its logits.
        tokens, _ = live.runner.sampler.topk_topp_sampler(row.expand(_ROWS, -1).clone(), generators, None, None)
        yield tokens


def _v2(row: Tensor, seed: int) -> Iterator[Tensor]:
    """The Gumbel kernel, whose stream is keyed by the request's seed and the token's position."""
    from vllm.v1.worker.gpu.sample.gumbel import gumbel_sample  # noqa: PLC0415 - V2 alone has it

    # 0.32 asks whether the draw is a draft's, 0.26 does not know the word.
    extra: dict[str, Any] = (
        {"is_drafting": False} if "is_drafting" in inspect.signature(gumbel_sample).parameters else {}
    )
    index = torch.arange(_ROWS, dtype=torch.int32, device=row.device)
    temperature = torch.ones(_ROWS, dtype=torch.float32, device=row.device)
    seeds = torch.arange(seed, seed + _ROWS, dtype=torch.int64, device=row.device)
    logits = row.expand(_ROWS, -1).contiguous()
    position = 0
    while True:
        positions = torch.full((_ROWS,), position, dtype=torch.int64, device=row.device)
        yield gumbel_sample(logits, index, temperature, seeds, positions, apply_temperature=False, **extra)
        position += 1
