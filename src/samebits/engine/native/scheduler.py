"""Continuous batching: which sequence computes how many tokens in the next step.

The order is vLLM's V1 scheduler's: running sequences first, oldest first, then waiting ones while the token budget,
the seats and the pages last; a sequence that cannot get a page takes it from the one admitted last, which starts
again from scratch later.  Nothing here may change a bit of anybody's logprobs; that is what the tests of this room
are for.  Pure Python: no torch, no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.engine.native.pages import PageAllocator
from samebits.engine.native.tables import Group, Tables
from samebits.engine.protocol import Counters, FinishReason, Request


@dataclass(slots=True, eq=False)
class Running:
    """One request on its way through the engine."""

    request: Request
    index: int
    """Place in the list of requests."""
    token_ids: list[int]
    """Prompt and what was generated so far."""
    tables: Tables
    """Its pages."""
    computed: int = 0
    """Leading tokens whose cache rows are in the pages."""
    is_prefilled: bool = False
    """Whether it has caught up with its tokens since it was last admitted."""
    chunks: int = 0
    """Steps that its present prefill has taken so far."""
    was_chunked: bool = False
    was_preempted: bool = False
    """Thrown out mid-generation and not admitted again yet."""
    finish_reason: FinishReason | None = None

    @property
    def generated(self) -> list[int]:
        """Response tokens so far."""
        return self.token_ids[len(self.request.prompt_token_ids) :]

    @property
    def pages(self) -> list[int]:
        """All pages that it owns."""
        return self.tables.owned


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """``count`` tokens of one sequence from position ``start``; ``samples`` if the last one has no successor yet."""

    sequence: Running
    start: int
    count: int
    samples: bool


class Scheduler:
    """The queue of one ``generate`` call.

    ``budget`` is the most tokens in one step, ``seats`` the most running sequences.  Without chunked prefill a prompt
    that exceeds what is left of the budget waits for a step of its own, so the budget must hold the longest one.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        pages: PageAllocator,
        *,
        budget: int,
        seats: int,
        chunked: bool,
        groups: Sequence[Group] | None = None,
    ) -> None:
        groups = groups or [Group(rows=pages.size)]
        self.sequences = [
            Running(
                request=request,
                index=index,
                token_ids=list(request.prompt_token_ids),
                tables=Tables(groups, pages, owner=index),
            )
            for index, request in enumerate(requests)
        ]
        self.waiting: deque[Running] = deque()
        self.running: list[Running] = []
        self.batch_sizes: list[int] = []
        self._pages = pages
        self._budget = budget
        self._seats = seats
        self._chunked = chunked
        self._step = 0
        self._arriving = deque(sorted(self.sequences, key=lambda one: one.request.arrival_step))  # stable
        self._prefill_tokens = self._decode_tokens = self._max_running = self._pages_max = 0
        self._chunked_prefills = self._preemptions = self._cancelled = 0
        self._chunks_inside = self._preemptions_inside = 0
        self._strides = {group.stride for group in groups} - {1}

    @property
    def is_done(self) -> bool:
        """Whether every request has finished."""
        return not (self._arriving or self.waiting or self.running)

    @property
    def in_flight(self) -> int:
        """Requests that have not finished, seen or not."""
        return len(self._arriving) + len(self.waiting) + len(self.running)

    def schedule(self) -> list[Chunk]:
        """The next step's work, in admission order.  Steps in which nobody would be there are skipped."""
        if self._arriving and not self.waiting and not self.running:
            self._step = max(self._step, self._arriving[0].request.arrival_step)
        while self._arriving and self._arriving[0].request.arrival_step <= self._step:
            self.waiting.append(self._arriving.popleft())
        self._step += 1
        budget, chunks = self._budget, []
        for sequence in list(self.running):
            if not budget:
                break
            if sequence not in self.running:  # thrown out by an older one a moment ago
                continue
            self._make_room(sequence)
            if sequence in self.running:
                chunks.append(self._chunk(sequence, budget))
                budget -= chunks[-1].count
        while self.waiting and len(self.running) < self._seats:
            if not self._can_admit(self.waiting[0], budget):
                break
            sequence = self.waiting.popleft()
            self._admit(sequence)
            chunks.append(self._chunk(sequence, budget))
            budget -= chunks[-1].count
        self._count(chunks)
        return chunks

    def advance(self, chunks: Sequence[Chunk], sampled: Sequence[int]) -> None:
        """Enter what a step computed; ``sampled`` has one token for each chunk that samples, in order."""
        tokens = iter(sampled)
        for chunk in chunks:
            sequence = chunk.sequence
            token = next(tokens) if chunk.samples else None
            if sequence.finish_reason is not None:  # cancelled while the step ran
                continue
            sequence.computed = chunk.start + chunk.count
            sequence.tables.trim(sequence.computed)
            if token is None:
                self._chunks_inside += self._is_inside_windows(sequence.computed)
                continue
            sequence.is_prefilled = True
            sequence.token_ids.append(token)
            if token in sequence.request.stop_token_ids:
                self._finish(sequence, "stop")
            elif len(sequence.generated) == sequence.request.max_tokens:
                self._finish(sequence, "length")

    def cancel(self, request_id: str) -> bool:
        """End one request now and free its pages; false if it had ended already or was never there."""
        for sequence in self.sequences:
            if sequence.request.request_id == request_id and sequence.finish_reason is None:
                self._cancelled += 1
                self._finish(sequence, "cancelled")
                return True
        return False

    def counters(self) -> Counters:
        """What really happened so far."""
        return Counters(
            steps=len(self.batch_sizes),
            prefill_tokens=self._prefill_tokens,
            decode_tokens=self._decode_tokens,
            chunked_prefills=self._chunked_prefills,
            preemptions=self._preemptions,
            cancelled=self._cancelled,
            chunks_inside_window=self._chunks_inside,
            preemptions_inside_window=self._preemptions_inside,
            distinct_batch_sizes=len(set(self.batch_sizes)),
            max_running=self._max_running,
            pages_in_use_max=self._pages_max,
        )

    def _make_room(self, sequence: Running) -> None:
        """Give ``sequence`` the pages that its newest token needs, if need be the youngest one's, be it itself."""
        while self._lacking(sequence) > self._pages.free:
            victim = self.running[-1]
            self._preempt(victim)
            if victim is sequence:
                return
        sequence.tables.grow(len(sequence.token_ids))

    def _lacking(self, sequence: Running) -> int:
        return sequence.tables.lacking(len(sequence.token_ids))

    def _can_admit(self, sequence: Running, budget: int) -> bool:
        """Whether all its tokens fit at once.

        Admitted by the page, a prompt would be thrown out half filled; and whoever was thrown out a moment ago, one
        page short now, would be let in again.
        """
        tokens = len(sequence.token_ids)
        return self._lacking(sequence) <= self._pages.free and budget >= (1 if self._chunked else tokens)

    def _admit(self, sequence: Running) -> None:
        sequence.tables.grow(len(sequence.token_ids))
        self.running.append(sequence)
        if sequence.was_preempted:
            self._preemptions += 1
            sequence.was_preempted = False

    def _chunk(self, sequence: Running, budget: int) -> Chunk:
        left = len(sequence.token_ids) - sequence.computed
        count = min(left, budget)
        if not sequence.is_prefilled:
            sequence.chunks += 1
            if sequence.chunks > 1 and not sequence.was_chunked:
                sequence.was_chunked = True
                self._chunked_prefills += 1
        return Chunk(sequence=sequence, start=sequence.computed, count=count, samples=count == left)

    def _preempt(self, sequence: Running) -> None:
        self.running.remove(sequence)
        self._preemptions_inside += self._is_inside_windows(sequence.computed)
        self._release(sequence)
        sequence.was_preempted |= bool(sequence.generated)
        self.waiting.appendleft(sequence)

    def _is_inside_windows(self, tokens: int) -> bool:
        """Whether a sequence of so many tokens is inside a window of each of the model's compressors."""
        return bool(self._strides) and all(tokens % stride for stride in self._strides)

    def _finish(self, sequence: Running, reason: FinishReason) -> None:
        sequence.finish_reason = reason
        for queue in (self.running, self.waiting, self._arriving):
            if sequence in queue:
                queue.remove(sequence)
        self._release(sequence)

    def _release(self, sequence: Running) -> None:
        sequence.tables.give_back()
        sequence.computed = sequence.chunks = 0
        sequence.is_prefilled = False

    def _count(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            if chunk.sequence.is_prefilled:
                self._decode_tokens += chunk.count
            else:
                self._prefill_tokens += chunk.count
        if chunks:
            self.batch_sizes.append(sum(chunk.count for chunk in chunks))
        self._max_running = max(self._max_running, len(self.running))
        self._pages_max = max(self._pages_max, self._pages.in_use)
