from __future__ import annotations

from samebits.engine.native.pages import PageAllocator
from samebits.engine.native.scheduler import Scheduler
from samebits.engine.native.tables import Group
from samebits.engine.protocol import Counters, Request


def request(name, prompt, tokens, *, stop=(), arrival=0):
    return Request(
        request_id=name,
        prompt_token_ids=[1] * prompt,
        max_tokens=tokens,
        seed=0,
        stop_token_ids=list(stop),
        sampling={},
        arrival_step=arrival,
    )


def scheduler(*requests, pages=100, size=4, budget=100, seats=10, chunked=True):
    return Scheduler(requests, PageAllocator(count=pages, size=size), budget=budget, seats=seats, chunked=chunked)


def plan(chunks):
    return [(chunk.sequence.request.request_id, chunk.start, chunk.count, chunk.samples) for chunk in chunks]


def step(one, token=7):
    chunks = one.schedule()
    one.advance(chunks, [token] * sum(chunk.samples for chunk in chunks))
    return plan(chunks)


def run(one, token=7):
    steps = []
    while not one.is_done:
        steps.append(step(one, token))
    return steps


def test_prefill_then_decode():
    one = scheduler(request("a", 5, 3))
    assert run(one) == [[("a", 0, 5, True)], [("a", 5, 1, True)], [("a", 6, 1, True)]]
    assert one.sequences[0].generated == [7, 7, 7]
    assert one.sequences[0].finish_reason == "length"
    assert one.batch_sizes == [5, 1, 1]
    assert one.counters() == Counters(
        steps=3,
        prefill_tokens=5,
        decode_tokens=2,
        chunked_prefills=0,
        preemptions=0,
        cancelled=0,
        chunks_inside_window=0,
        preemptions_inside_window=0,
        distinct_batch_sizes=2,
        max_running=1,
        pages_in_use_max=2,
    )


def test_a_stop_token_ends_the_response_and_belongs_to_it():
    one = scheduler(request("a", 2, 9, stop=[7]))
    run(one)
    assert (one.sequences[0].generated, one.sequences[0].finish_reason) == ([7], "stop")


def test_a_stop_token_at_the_last_place_is_a_stop():
    one = scheduler(request("a", 2, 1, stop=[7]))
    run(one)
    assert one.sequences[0].finish_reason == "stop"


def test_a_stop_token_in_the_prompt_stops_nothing():
    one = scheduler(request("a", 2, 2, stop=[1]))
    run(one)
    assert one.sequences[0].generated == [7, 7]


def test_long_prompts_come_in_chunks_beside_decodes():
    one = scheduler(request("a", 3, 4), request("b", 9, 1), budget=6)
    assert run(one) == [
        [("a", 0, 3, True), ("b", 0, 3, False)],
        [("a", 3, 1, True), ("b", 3, 5, False)],
        [("a", 4, 1, True), ("b", 8, 1, True)],
        [("a", 5, 1, True)],
    ]
    assert one.counters().chunked_prefills == 1


def test_without_chunks_a_prompt_waits_for_a_step_of_its_own():
    one = scheduler(request("a", 3, 2), request("b", 6, 1), budget=6, chunked=False)
    assert run(one) == [[("a", 0, 3, True)], [("a", 3, 1, True)], [("b", 0, 6, True)]]
    assert one.counters().chunked_prefills == 0


def test_seats_are_kept():
    one = scheduler(*(request(name, 1, 2) for name in "abc"), seats=2)
    assert run(one) == [
        [("a", 0, 1, True), ("b", 0, 1, True)],
        [("a", 1, 1, True), ("b", 1, 1, True)],
        [("c", 0, 1, True)],
        [("c", 1, 1, True)],
    ]
    assert one.counters().max_running == 2


def test_requests_arrive_step_by_step():
    one = scheduler(request("late", 1, 1, arrival=2), request("a", 1, 3))
    assert run(one) == [[("a", 0, 1, True)], [("a", 1, 1, True)], [("a", 2, 1, True), ("late", 0, 1, True)]]


def test_steps_in_which_nobody_is_there_are_skipped():
    one = scheduler(request("a", 1, 1), request("late", 1, 1, arrival=10**9))
    assert run(one) == [[("a", 0, 1, True)], [("late", 0, 1, True)]]
    assert one.counters().steps == 2


def test_the_youngest_loses_its_pages_and_starts_again():
    # Each needs a second page for its fifth token; there are three.
    one = scheduler(request("a", 4, 4), request("b", 4, 3), pages=3)
    assert run(one) == [
        [("a", 0, 4, True), ("b", 0, 4, True)],
        [("a", 4, 1, True)],  # b has nowhere to put its fifth token
        [("a", 5, 1, True)],
        [("a", 6, 1, True)],
        [("b", 0, 5, True)],  # prompt and what was generated
        [("b", 5, 1, True)],
    ]
    assert one.sequences[1].generated == [7, 7, 7]
    assert one.counters().preemptions == 1
    assert one.counters().prefill_tokens == 4 + 4 + 5
    assert one.counters().decode_tokens == 3 + 1


def test_a_preempted_request_goes_before_those_that_never_ran():
    one = scheduler(request("a", 4, 3), request("b", 4, 2), request("c", 1, 1), pages=3, seats=2)
    steps = run(one)
    first_c = next(index for index, chunks in enumerate(steps) if any(name == "c" for name, *_ in chunks))
    back_b = next(index for index, chunks in enumerate(steps) if ("b", 0, 5, True) in chunks)
    assert back_b <= first_c


def test_preemption_counts_only_what_had_generated_and_came_back():
    one = scheduler(request("a", 4, 4), request("b", 4, 3), pages=3)
    for _ in range(2):
        step(one)
    assert one.counters().preemptions == 0  # thrown out, not computed again
    one.cancel("b")
    run(one)
    assert one.counters().preemptions == 0


def test_cancel_while_running_waiting_and_before_arrival():
    one = scheduler(request("a", 4, 9), request("b", 4, 9), request("c", 4, 9, arrival=50), seats=1)
    step(one)
    assert one.in_flight == 3
    assert [one.cancel(name) for name in "abc"] == [True, True, True]
    assert one.is_done
    assert [sequence.finish_reason for sequence in one.sequences] == ["cancelled"] * 3
    assert [sequence.generated for sequence in one.sequences] == [[7], [], []]
    assert one.counters().cancelled == 3
    assert one._pages.in_use == 0


def test_cancel_twice_or_of_nobody():
    one = scheduler(request("a", 4, 9))
    assert one.cancel("a")
    assert not one.cancel("a")
    assert not one.cancel("nobody")
    assert one.counters().cancelled == 1


def test_cancel_during_a_step_drops_that_steps_token():
    one = scheduler(request("a", 4, 9), request("b", 4, 1))
    chunks = one.schedule()
    one.cancel("a")
    one.advance(chunks, [7, 8])
    assert [sequence.generated for sequence in one.sequences] == [[], [8]]


def windowed(*requests, pages, budget):
    """A model with compressors of 4 and of 16 tokens."""
    allocator = PageAllocator(count=pages, size=4)
    groups = [Group(rows=4), Group(rows=1, stride=4), Group(rows=1, stride=16)]
    return Scheduler(requests, allocator, budget=budget, seats=10, chunked=True, groups=groups)


def test_chunks_that_end_inside_a_window_of_every_compressor():
    one = windowed(request("a", 20, 1), pages=100, budget=6)  # ends at 6, 12, 18: of which 12 completes a window of 4
    run(one)
    assert one.counters().chunked_prefills == 1
    assert one.counters().chunks_inside_window == 2


def test_preemptions_inside_a_window():
    one = windowed(request("a", 9, 12), request("b", 10, 12), pages=13, budget=100)
    run(one)
    assert (one.counters().preemptions, one.counters().preemptions_inside_window) == (1, 1)


def test_a_dense_model_has_no_windows():
    one = scheduler(request("a", 20, 1), budget=6)
    run(one)
    assert (one.counters().chunked_prefills, one.counters().chunks_inside_window) == (1, 0)
