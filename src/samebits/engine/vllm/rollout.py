"""Generating: vLLM's engine is stepped here, one step at a time, and requests join at the step that they ask for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from samebits.bits import Bits
from samebits.engine.protocol import FinishReason, OnStep, Progress, Request, Trajectory
from samebits.engine.vllm.faults import reported
from samebits.engine.vllm.live import Live
from samebits.engine.vllm.logprobs import fp32_patterns, sampled
from samebits.engine.vllm.sampling import engine_request
from samebits.engine.vllm.watch import Watch
from samebits.errors import MachineError

_FINISHED: Final[Mapping[str, FinishReason]] = {"stop": "stop", "length": "length"}


@dataclass(slots=True)
class _Answer:
    request: Request
    version_start: int = -1
    version_end: int = -1
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: FinishReason | None = None


class Rollout:
    """One ``generate`` call."""

    def __init__(self, requests: Sequence[Request], live: Live, watch: Watch, version: int) -> None:
        self._live = live
        self._watch = watch
        self._version = version
        # All are built and gated before the first is added: one that is refused leaves nothing half done.
        self._made = {request.request_id: engine_request(live, request) for request in requests}
        self.answers = {request.request_id: _Answer(request) for request in requests}
        self._arriving = deque(sorted(requests, key=lambda one: one.arrival_step))  # stable
        self._step = 0
        self._tokens = 0
        self._began = time.perf_counter()
        watch.begin()

    @property
    def in_flight(self) -> int:
        """Requests that have not finished, seen or not."""
        return sum(answer.finish_reason is None for answer in self.answers.values())

    def run(self, on_step: OnStep | None) -> None:
        """Step until every request has finished; ``on_step`` may cancel some.

        Raises:
            MachineError: the engine core failed; see :func:`reported`.
        """
        engine = self._live.engine
        while self.in_flight:
            self._admit()
            with reported("generate"):
                outputs = engine.step()
            for output in outputs:
                self._take(output)
            if on_step is not None:
                on_step(self._progress())

    def cancel(self, request_id: str) -> bool:
        """End one request now; false if it had ended already or was never there."""
        answer = self.answers.get(request_id)
        if answer is None or answer.finish_reason is not None:
            return False
        self._live.engine.abort_request([request_id])
        self._finish(answer, "cancelled")
        self._watch.cancelled += 1
        return True

    def cancel_all(self) -> None:
        """After a failure: nothing stays in flight."""
        for request_id in self.answers:
            self.cancel(request_id)

    def trajectories(self) -> list[Trajectory]:
        """In request order."""
        return [
            Trajectory(
                request_id=answer.request.request_id,
                token_ids=answer.token_ids,
                finish_reason=answer.finish_reason or "cancelled",
                weight_version_start=answer.version_start,
                weight_version_end=answer.version_end,
            )
            for answer in self.answers.values()
        ]

    def patterns(self) -> list[Bits]:
        """Of the response tokens of each request, in order."""
        return [fp32_patterns(answer.logprobs) for answer in self.answers.values()]

    def _admit(self) -> None:
        if self._arriving and not self._live.engine.has_unfinished_requests():
            self._step = max(self._step, self._arriving[0].arrival_step)
        while self._arriving and self._arriving[0].arrival_step <= self._step:
            request = self._arriving.popleft()
            answer = self.answers[request.request_id]
            answer.version_start = answer.version_end = self._version
            if answer.finish_reason is None:  # else cancelled before it arrived
                made = self._made[request.request_id]
                self._live.engine.add_request(request.request_id, made, made.sampling_params)
        self._step += 1

    def _take(self, output: Any) -> None:
        answer = self.answers[output.request_id]
        if answer.finish_reason is not None:  # cancelled while the step ran
            return
        (completion,) = output.outputs
        answer.token_ids += completion.token_ids
        answer.logprobs += sampled(completion.token_ids, completion.logprobs or ())
        self._tokens += len(completion.token_ids)
        if output.finished:
            if completion.finish_reason not in _FINISHED:
                raise MachineError(
                    f"request {output.request_id!r}",
                    found=f"finished because of {completion.finish_reason!r}",
                    accepted=" or ".join(_FINISHED),
                    next_step="The engine gave up on it; the worker's log says why.",
                )
            self._finish(answer, _FINISHED[completion.finish_reason])

    def _finish(self, answer: _Answer, reason: FinishReason) -> None:
        answer.finish_reason = reason
        answer.version_end = self._version
        if answer.version_start < 0:
            answer.version_start = self._version

    def _progress(self) -> Progress:
        finished = len(self.answers) - self.in_flight
        running = min(self._watch.running_now, self.in_flight)
        return Progress(
            step=len(self._watch.batch_sizes),
            tokens=self._tokens,
            tokens_per_second=self._tokens / (time.perf_counter() - self._began),
            running=running,
            waiting=self.in_flight - running,
            finished=finished,
            requests=len(self.answers),
        )
