"""Counters from a scheduler's outputs, and logprobs back to patterns; no vLLM needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from samebits.engine.protocol import Counters
from samebits.engine.vllm.faults import reported
from samebits.engine.vllm.logprobs import fp32_patterns, sampled
from samebits.engine.vllm.watch import Watch
from samebits.errors import GateError, MachineError


@dataclass
class Scheduler:
    """Plays back steps: what each request computes, who is new and who is back, and pages in use."""

    steps: list[dict]
    requests: dict = field(default_factory=dict)

    def __post_init__(self):
        self.pool = SimpleNamespace(num_gpu_blocks=10, get_num_free_blocks=lambda: 9 - self.pages)
        self.kv_cache_manager = SimpleNamespace(block_pool=self.pool)
        self.pages = 0

    def schedule(self):
        step = self.steps.pop(0)
        self.pages = step.get("pages", 0)
        for name, (computed, total, generated) in step.get("at", {}).items():
            self.requests[name] = SimpleNamespace(
                request_id=name, num_computed_tokens=computed, num_tokens=total, num_output_tokens=generated
            )
        counts = step["counts"]
        return SimpleNamespace(
            scheduled_new_reqs=[SimpleNamespace(req_id=name) for name in step.get("new", [])],
            scheduled_cached_reqs=SimpleNamespace(resumed_req_ids=set(step.get("resumed", []))),
            num_scheduled_tokens=counts,
            total_num_scheduled_tokens=sum(counts.values()),
        )


def counted(*steps):
    scheduler = Scheduler(list(steps))
    watch = Watch(scheduler)
    while scheduler.steps:
        scheduler.schedule()
    return watch


A_CHUNKED = (
    {"new": ["a"], "counts": {"a": 4}, "at": {"a": (4, 6, 0)}, "pages": 1},
    {"counts": {"a": 2}, "at": {"a": (6, 6, 0)}, "pages": 2},
    {"counts": {"a": 1}, "at": {"a": (7, 7, 1)}, "pages": 2},
)


def test_a_prefill_in_two_chunks_and_a_decode():
    watch = counted(*A_CHUNKED)
    assert watch.counters() == Counters(
        steps=3,
        prefill_tokens=6,
        decode_tokens=1,
        chunked_prefills=1,
        preemptions=0,
        cancelled=0,
        chunks_inside_window=0,
        preemptions_inside_window=0,
        distinct_batch_sizes=3,
        max_running=1,
        pages_in_use_max=2,
    )
    assert watch.batch_sizes == [4, 2, 1]


@pytest.mark.parametrize("how", ["resumed", "new"], ids=["as V1 says it", "as V2 says it"])
def test_back_after_a_preemption(how):
    watch = counted(
        {"new": ["a", "b"], "counts": {"a": 3, "b": 3}, "at": {"a": (3, 3, 0), "b": (3, 3, 0)}},
        {"counts": {"a": 1}, "at": {"a": (4, 4, 1)}},  # b was thrown out with one token generated
        {how: ["b"], "counts": {"a": 1, "b": 4}, "at": {"a": (5, 5, 2), "b": (4, 4, 1)}},
        {"counts": {"b": 1}, "at": {"b": (5, 5, 2)}},
    )
    found = watch.counters()
    assert (found.preemptions, found.prefill_tokens, found.decode_tokens) == (1, 3 + 3 + 4, 1 + 1 + 1)
    assert found.max_running == 2


def test_thrown_out_before_it_generated_is_not_mid_generation():
    watch = counted(
        {"new": ["a"], "counts": {"a": 3}, "at": {"a": (3, 6, 0)}},
        {"resumed": ["a"], "counts": {"a": 6}, "at": {"a": (6, 6, 0)}},
    )
    assert watch.counters().preemptions == 0
    assert watch.counters().chunked_prefills == 0


def test_a_step_without_work_is_no_step():
    assert counted({"counts": {}}).counters().steps == 0


def test_begin_forgets():
    watch = counted(*A_CHUNKED)
    watch.begin()
    assert (watch.counters().steps, watch.counters().prefill_tokens, watch.batch_sizes) == (0, 0, [])


def test_fp32_survives_pythons_floats():
    patterns = np.array([0x80000000, 0xBF800001, 0xC2F6E979, 0x00000001, 0x7FC00000], dtype=np.uint32)
    floats = [float(one) for one in patterns.view(np.float32)]
    assert fp32_patterns(floats).tolist() == patterns.tolist()


def test_a_number_that_no_fp32_can_be():
    with pytest.raises(MachineError) as caught:
        fp32_patterns([-1.1])
    assert caught.value.found == "a number that no fp32 logprob can have"


def test_the_sampled_tokens_own_logprob():
    first, second = (
        {7: SimpleNamespace(logprob=-1.5), 8: SimpleNamespace(logprob=-0.5)},
        {8: SimpleNamespace(logprob=-2.0)},
    )
    assert sampled([7, 8], [first, second]) == [-1.5, -2.0]
    with pytest.raises(ValueError, match="shorter"):
        sampled([7, 8], [first])


def test_out_of_memory_comes_with_advice():
    with pytest.raises(MachineError) as caught, reported("generate"):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert str(caught.value) == (
        "engine: generate: found out of memory: CUDA out of memory. Tried to allocate 2.00 GiB.; accepted: memory for "
        "the weights, the pages and a step. Lower num_gpu_blocks, max_num_batched_tokens or gpu_memory_utilization, "
        "or free the device."
    )


def test_a_failing_core_names_its_exception():
    with pytest.raises(MachineError) as caught, reported("score"):
        raise TypeError("'NoneType' object is not subscriptable")
    assert caught.value.field == "engine: score"
    assert caught.value.found == "TypeError: 'NoneType' object is not subscriptable"


def test_a_refusal_stays_a_refusal():
    refusal = GateError("engine.x", found="a", accepted="b", next_step="c")
    with pytest.raises(GateError) as caught, reported("construct"):
        raise refusal
    assert caught.value is refusal
