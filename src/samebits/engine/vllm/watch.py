"""What the scheduler really did: counted from each ``SchedulerOutput`` on its way to the model, never guessed.

``scheduler.schedule`` is replaced on the one instance by a function that calls it and takes notes.  Everything read is
the same in 0.26 and 0.32, but for one difference between runners: V1 names resumed requests in ``resumed_req_ids``, V2
sends them again among the new ones.  So who is back after a preemption is known from who was there before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from samebits.engine.protocol import Counters


@dataclass(slots=True)
class _Seen:
    chunks: int = 0
    """Steps that its present prefill has taken so far."""
    has_caught_up: bool = False
    was_chunked: bool = False


class Watch:
    """Counts from :meth:`begin` on."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._schedule = scheduler.schedule
        self.begin()
        scheduler.schedule = self._watched

    def begin(self) -> None:
        """Start again from nothing."""
        self.batch_sizes: list[int] = []
        self.cancelled = 0
        self.running_now = 0
        self._seen: dict[str, _Seen] = {}
        self._prefill_tokens = self._decode_tokens = self._chunked_prefills = self._preemptions = 0
        self._max_running = self._pages_max = 0

    def counters(self) -> Counters:
        """The counts so far; vLLM's dense models have no compressor windows."""
        return Counters(
            steps=len(self.batch_sizes),
            prefill_tokens=self._prefill_tokens,
            decode_tokens=self._decode_tokens,
            chunked_prefills=self._chunked_prefills,
            preemptions=self._preemptions,
            cancelled=self.cancelled,
            chunks_inside_window=0,
            preemptions_inside_window=0,
            distinct_batch_sizes=len(set(self.batch_sizes)),
            max_running=self._max_running,
            pages_in_use_max=self._pages_max,
        )

    def _watched(self, *arguments: Any, **named: Any) -> Any:
        output = self._schedule(*arguments, **named)
        resumed = set(output.scheduled_cached_reqs.resumed_req_ids)
        resumed |= {new.req_id for new in output.scheduled_new_reqs if new.req_id in self._seen}
        for request_id, count in output.num_scheduled_tokens.items():
            self._note(self._scheduler.requests[request_id], request_id in resumed, count)
        if output.total_num_scheduled_tokens:
            self.batch_sizes.append(output.total_num_scheduled_tokens)
        self.running_now = len(output.num_scheduled_tokens)
        self._max_running = max(self._max_running, self.running_now)
        pool = self._scheduler.kv_cache_manager.block_pool
        in_use = pool.num_gpu_blocks - 1 - pool.get_num_free_blocks()  # one page is vLLM's own
        self._pages_max = max(self._pages_max, in_use)
        return output

    def _note(self, request: Any, is_back: bool, count: int) -> None:
        seen = self._seen.setdefault(request.request_id, _Seen())
        if is_back:
            seen.chunks, seen.has_caught_up = 0, False
            self._preemptions += request.num_output_tokens > 0
        if seen.has_caught_up:
            self._decode_tokens += count
            return
        self._prefill_tokens += count
        seen.chunks += 1
        if seen.chunks > 1 and not seen.was_chunked:
            seen.was_chunked = True
            self._chunked_prefills += 1
        # The scheduler has already moved num_computed_tokens to where this step will end.
        seen.has_caught_up = request.num_computed_tokens >= request.num_tokens
