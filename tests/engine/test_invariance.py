"""A request's tokens and logprob bits depend on its prompt, its seed and the weights, and on nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine_crowd import MODEL, build, crowd, outcome, whole
from samebits.engine.protocol import Counters
from samebits.models import save_folder, seeded_config, seeded_weights

CROWDED = {
    "roomy": {},
    "small chunks": {"max_num_batched_tokens": 16},
    "tiny chunks": {"max_num_batched_tokens": 3, "max_num_seqs": 3},
    "whole prompts only": {"max_num_batched_tokens": 64, "enable_chunked_prefill": False},
    "one seat": {"max_num_seqs": 1},
    "three seats": {"max_num_seqs": 3},
    "tight pages": {"num_gpu_blocks": 9},
    "tight pages of one token": {"num_gpu_blocks": 70, "block_size": 1},
    "pages that do not divide the key slots": {"num_gpu_blocks": 14, "block_size": 5},
    "everything at once": {"max_num_batched_tokens": 11, "max_num_seqs": 5, "num_gpu_blocks": 10},
}


@pytest.fixture(scope="module")
def alone(model_folder):
    """Each request generated with nobody beside it."""
    one = build(model_folder)
    return {name: found for request in crowd() for name, found in outcome(one, [request]).items()}


@pytest.mark.parametrize("changed", CROWDED.values(), ids=CROWDED)
def test_alone_or_in_any_crowd(alone, engine, changed):
    assert outcome(engine(**changed), crowd()) == alone


def test_the_crowds_really_were_crowds(engine):
    assert engine(**CROWDED["everything at once"]).generate(crowd(), 0).counters == Counters(
        steps=51,
        prefill_tokens=205,
        decode_tokens=85,
        chunked_prefills=6,
        preemptions=3,
        cancelled=0,
        chunks_inside_window=0,
        preemptions_inside_window=0,
        distinct_batch_sizes=7,
        max_running=4,
        pages_in_use_max=10,
    )


@pytest.mark.parametrize("order", [range(7, -1, -1), [3, 0, 6, 1, 7, 2, 5, 4]])
def test_order_and_arrival_do_not_matter(alone, engine, order):
    arriving = [replace(crowd()[index], arrival_step=3 * place % 7) for place, index in enumerate(order)]
    assert outcome(engine(max_num_batched_tokens=16, max_num_seqs=4), arriving) == alone


def test_other_neighbours_do_not_matter(alone, engine):
    found = outcome(engine(), [replace(one, seed=one.seed + 5) if index else one for index, one in enumerate(crowd())])
    assert found["r0"] == alone["r0"]
    assert found["r2"] != alone["r2"]


def test_what_was_in_the_pages_before_does_not_matter(alone, engine):
    one = engine(num_gpu_blocks=10)
    for storage in one._forward.cache._storage:
        storage[:, 1:].fill_(float("nan"))  # every page but the one that is always zero
    assert outcome(one, crowd()) == alone


def test_a_second_round_repeats_the_first(alone, engine):
    one = engine(num_gpu_blocks=10)
    outcome(one, list(reversed(crowd())))
    assert outcome(one, crowd()) == alone


def test_neighbours_that_are_cancelled_do_not_matter(alone, engine):
    one = engine(num_gpu_blocks=10)
    generated = one.generate(crowd(), 0, lambda now: one.cancel("r2") if now.step == 3 else None)
    patterns = one.reveal(generated.sealed.commitment)
    for trajectory, row in zip(generated.trajectories, patterns, strict=True):
        tokens, bits = alone[trajectory.request_id]
        if trajectory.request_id == "r2":
            assert trajectory.finish_reason == "cancelled"
            assert 0 < len(trajectory.token_ids) < len(tokens)
        assert (trajectory.token_ids, row) == (tokens[: len(row)], bits[: len(row)])
        assert len(row) == len(trajectory.token_ids)


@pytest.mark.parametrize("changed", [{}, {"num_gpu_blocks": 8}, {"max_num_batched_tokens": 16}])
def test_rollout_is_its_own_prefill(alone, engine, changed):
    one = engine(**changed)
    scored = one.score(whole(crowd(), alone), 0)
    assert one.reveal(scored.commitment) == [bits for _, bits in alone.values()]
    assert scored.tokens == sum(len(tokens) for tokens, _ in alone.values())


def test_the_plain_op_set_is_not_its_own_prefill(engine):
    """The control arm's premise: with the aligned switch off the same comparison finds differences."""
    one = engine("plain", max_num_batched_tokens=16)
    found = outcome(one, crowd())
    scored = one.reveal(one.score(whole(crowd(), found), 0).commitment)
    assert [bits for _, bits in found.values()] != scored


def test_two_threads_change_nothing(alone, engine):
    assert outcome(engine(threads=2), crowd(2)) == {name: alone[name] for name in ("r0", "r1")}


def test_float32_too(engine, tmp_path):
    model = MODEL.model_copy(update={"dtype": "float32"})
    save_folder(tmp_path, seeded_config(model), seeded_weights(model))
    roomy = engine(folder=tmp_path)
    found = outcome(roomy, crowd())
    assert outcome(engine(folder=tmp_path, **CROWDED["everything at once"]), crowd()) == found
    scored = roomy.score(whole(crowd(), found), 0)
    assert roomy.reveal(scored.commitment) == [bits for _, bits in found.values()]
