"""Generating: the scheduler says what to compute, the forward computes it, the sampler draws."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from samebits.bits import Bits
from samebits.engine.native import sampler
from samebits.engine.native.forward import Forward, Watch
from samebits.engine.native.paged_batch import Span
from samebits.engine.native.pages import PageAllocator
from samebits.engine.native.scheduler import Chunk, Running, Scheduler
from samebits.engine.native.settings import Settings
from samebits.engine.native.weights import EngineWeights
from samebits.engine.protocol import OnStep, Progress, Request, Trajectory
from samebits.errors import MachineError
from samebits.observed import Observed
from samebits.ops.observer import Record


@dataclass(slots=True)
class Rollout:
    """One ``generate`` call."""

    forward: Forward
    weights: EngineWeights
    pages: PageAllocator
    scheduler: Scheduler
    patterns: list[list[Bits]]
    """Per request, one array for each token that it sampled."""
    versions: list[list[int]]
    """Per request, the weight version at each of its steps (rule 5)."""
    began: float = field(default_factory=time.perf_counter)
    tokens: int = 0
    record: Record = field(default_factory=Record)

    @classmethod
    def of(cls, requests: Sequence[Request], settings: Settings, forward: Forward, weights: EngineWeights) -> Rollout:
        """Ready for the first step; the pages are all free."""
        pages = PageAllocator(count=settings.num_gpu_blocks, size=settings.block_size)
        scheduler = Scheduler(
            requests,
            pages,
            budget=settings.max_num_batched_tokens,
            seats=settings.max_num_seqs,
            chunked=settings.enable_chunked_prefill,
            groups=forward.cache.groups,
        )
        return cls(
            forward=forward,
            weights=weights,
            pages=pages,
            scheduler=scheduler,
            patterns=[[] for _ in requests],
            versions=[[] for _ in requests],
        )

    def run(self, on_step: OnStep | None) -> None:
        """Step until every request has finished; ``on_step`` may cancel some."""
        while not self.scheduler.is_done:
            self._step()
            if on_step is not None:
                on_step(self._progress())

    def _step(self) -> None:
        chunks = self.scheduler.schedule()
        for chunk in chunks:
            self.versions[chunk.sequence.index].append(self.weights.version)
        self.forward.cache.zero(self.pages.take_fresh())
        keys = [chunk.sequence.index for chunk in chunks]
        hidden = self.forward.hidden([_span(chunk) for chunk in chunks], keys, Watch(self.record, keys))
        ends = np.cumsum([chunk.count for chunk in chunks])
        rows = [int(end) - 1 for chunk, end in zip(chunks, ends, strict=True) if chunk.samples]
        sampling = [chunk.sequence for chunk in chunks if chunk.samples]
        sampled: list[int] = []
        if rows:
            logits = self.forward.logits(hidden, rows)
            sampled = _sample(logits, sampling)
            patterns = self.forward.patterns(logits, rows, sampled)
            for place, sequence in enumerate(sampling):
                self.patterns[sequence.index].append(patterns[place : place + 1])
        self.tokens += len(sampled)
        self.scheduler.advance(chunks, sampled)

    def trajectory(self, sequence: Running) -> Trajectory:
        """What came of one request."""
        # Cancelled before its first step, it belongs to the version that was loaded.
        versions = self.versions[sequence.index] or [self.weights.version]
        return Trajectory(
            request_id=sequence.request.request_id,
            token_ids=sequence.generated,
            finish_reason=sequence.finish_reason or "cancelled",
            weight_version_start=versions[0],
            weight_version_end=versions[-1],
        )

    def response_patterns(self, sequence: Running) -> Bits:
        """Patterns of its response tokens, uint32 [tokens]."""
        return np.concatenate([np.empty(0, dtype=np.uint32), *self.patterns[sequence.index]])

    def observed(self) -> Observed:
        """What the family decided and met; the last token of a sequence is never computed."""
        return self.record.observed(
            {sequence.index: len(sequence.token_ids) - 1 for sequence in self.scheduler.sequences}
        )

    def _progress(self) -> Progress:
        scheduler = self.scheduler
        return Progress(
            step=len(scheduler.batch_sizes),
            tokens=self.tokens,
            tokens_per_second=self.tokens / (time.perf_counter() - self.began),
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            finished=len(scheduler.sequences) - scheduler.in_flight,
            requests=len(scheduler.sequences),
        )


def _span(chunk: Chunk) -> Span:
    sequence = chunk.sequence
    return Span(
        token_ids=sequence.token_ids[chunk.start : chunk.start + chunk.count],
        start=chunk.start,
        tables=sequence.tables.tables,
    )


def _sample(logits: Tensor, sequences: Sequence[Running]) -> list[int]:
    """One token for each row of ``logits`` [R, V].

    Raises:
        MachineError: a row's logits are no distribution.
    """
    wide = logits.double().numpy()
    tokens = []
    for row, sequence in zip(wide, sequences, strict=True):
        request, index = sequence.request, len(sequence.generated)
        if request.sampling["temperature"] == 0:
            tokens.append(sampler.greedy(row))
            continue
        try:
            tokens.append(sampler.sample(row, seed=request.seed, index=index))
        except FloatingPointError as error:
            raise MachineError(
                f"logits of request {request.request_id!r}, response token {index}",
                found=str(error),
                accepted="finite logits",
                next_step="The weights are broken: look at the last optimizer step, or lower the learning rate.",
            ) from None
    return tokens
