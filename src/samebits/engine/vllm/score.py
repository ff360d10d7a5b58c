"""Scoring: the engine's own prefill of whole sequences, to hold against its own rollout (rule 11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from samebits.bits import Bits
from samebits.engine.protocol import WholeSequence
from samebits.engine.vllm.faults import reported
from samebits.engine.vllm.live import Live
from samebits.engine.vllm.logprobs import fp32_patterns, sampled
from samebits.engine.vllm.sampling import score_request
from samebits.recipe.model import VllmSettings


def score(sequences: Sequence[WholeSequence], settings: VllmSettings, live: Live) -> list[Bits]:
    """Patterns of the response tokens of each sequence, in order.

    Those of a group are prefilled in one step, so that none is cut into chunks unless it exceeds the step's budget
    alone.
    """
    found: list[Bits] = [np.empty(0, dtype=np.uint32) for _ in sequences]
    for group in _groups(sequences, settings):
        for index, prompt_logprobs in _prefill(group, sequences, live):
            sequence = sequences[index]
            response = sequence.token_ids[sequence.prompt_length :]
            found[index] = fp32_patterns(sampled(response, prompt_logprobs[sequence.prompt_length :]))
    return found


def _prefill(group: Sequence[int], sequences: Sequence[WholeSequence], live: Live) -> Iterator[tuple[int, Any]]:
    for index in group:
        made = score_request(live, f"score-{index}", sequences[index].token_ids)
        live.engine.add_request(f"score-{index}", made, made.sampling_params)
    while live.engine.has_unfinished_requests():
        with reported("score"):
            outputs = live.engine.step()
        for output in outputs:
            if output.finished:
                yield int(output.request_id.removeprefix("score-")), output.prompt_logprobs


def _groups(sequences: Sequence[WholeSequence], settings: VllmSettings) -> Iterator[list[int]]:
    """Neighbours that fit into one step, without those that have no response."""
    group: list[int] = []
    tokens = pages = 0
    for index, sequence in enumerate(sequences):
        length = len(sequence.token_ids)
        if length == sequence.prompt_length:
            continue
        own = -(-(length + 1) // settings.block_size)
        is_full = len(group) == settings.max_num_seqs
        if group and (
            is_full or tokens + length > settings.max_num_batched_tokens or pages + own > settings.num_gpu_blocks - 1
        ):
            yield group
            group, tokens, pages = [], 0, 0
        group.append(index)
        tokens, pages = tokens + length, pages + own
    if group:
        yield group
