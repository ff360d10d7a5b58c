"""Whatever the crowd and however tight the pages: every request ends, whole, and nobody shares anything."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.engine.native.pages import PageAllocator
from samebits.engine.native.scheduler import Scheduler
from samebits.engine.protocol import Request

LONGEST = 24


@st.composite
def crowds(draw):
    count = draw(st.integers(1, 8))
    requests = []
    for index in range(count):
        prompt = draw(st.integers(1, LONGEST - 1))
        requests.append(
            Request(
                request_id=str(index),
                prompt_token_ids=[0] * prompt,
                max_tokens=draw(st.integers(1, LONGEST - prompt)),
                seed=0,
                stop_token_ids=[],
                sampling={},
                arrival_step=draw(st.integers(0, 30)),
            )
        )
    return requests


@settings(max_examples=200, deadline=None)
@given(
    requests=crowds(),
    size=st.integers(1, 8),
    extra_pages=st.integers(0, 10),
    seats=st.integers(1, 6),
    extra_budget=st.integers(0, 30),
    chunked=st.booleans(),
    cancels=st.dictionaries(st.integers(0, 40), st.integers(0, 7), max_size=2),
)
def test_every_request_ends_whole(requests, size, extra_pages, seats, extra_budget, chunked, cancels):
    pages = PageAllocator(count=-(-LONGEST // size) + extra_pages, size=size)
    budget = (seats if chunked else LONGEST) + extra_budget
    one = Scheduler(requests, pages, budget=budget, seats=seats, chunked=chunked)
    cached: dict[int, int] = {}  # what is really in the pages, kept apart from the scheduler's own books
    steps = 0
    while not one.is_done:
        chunks = one.schedule()
        assert chunks, "a step without work"
        assert sum(chunk.count for chunk in chunks) <= budget
        assert len(one.running) <= seats
        assert len({id(chunk.sequence) for chunk in chunks}) == len(chunks)
        owned = [page for sequence in one.running for page in sequence.pages]
        assert len(owned) == len(set(owned)) == pages.in_use
        for chunk in chunks:
            sequence = chunk.sequence
            if chunk.start == 0:
                cached[sequence.index] = 0
            assert chunk.start == cached[sequence.index]
            assert chunk.count > 0
            cached[sequence.index] += chunk.count
            assert cached[sequence.index] <= len(sequence.pages) * size
            assert chunk.samples == (cached[sequence.index] == len(sequence.token_ids))
            assert chunk.samples or chunked
        one.advance(chunks, range(sum(chunk.samples for chunk in chunks)))
        if steps in cancels:
            one.cancel(str(cancels[steps]))
        steps += 1
        assert steps < 5000
    counters = one.counters()
    for sequence, request in zip(one.sequences, requests, strict=True):
        if sequence.finish_reason == "length":
            assert len(sequence.generated) == request.max_tokens
        else:
            assert sequence.finish_reason == "cancelled"
            assert len(sequence.generated) < request.max_tokens
    assert pages.in_use == 0
    assert counters.prefill_tokens + counters.decode_tokens == sum(one.batch_sizes)
    assert counters.steps == len(one.batch_sizes) == steps
