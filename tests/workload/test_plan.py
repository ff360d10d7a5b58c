"""The requests of a round, and what their answers earn."""

from __future__ import annotations

import hashlib

import pytest

from samebits.errors import InputError
from samebits.gate import request as gate
from samebits.recipe.model import Workload as Settings
from samebits.recipe.sampling import CONFORMING
from samebits.workload import ByteTokenizer, Workload, request_seed
from samebits.workload.requests import arrival_step

SETTINGS = Settings(
    problems="chain_sum",
    seed=5,
    problems_per_round=3,
    samples_per_problem=2,
    max_response_tokens=16,
    arrival_spread_steps=4,
)


@pytest.fixture
def workload():
    return Workload(SETTINGS, ByteTokenizer(300))


def test_requests_of_a_round(workload):
    plan = workload.plan_round(2)
    prompts = plan.prompts
    assert [prompt.request_id for prompt in prompts] == [
        "r2-p0-s0", "r2-p0-s1", "r2-p1-s0", "r2-p1-s1", "r2-p2-s0", "r2-p2-s1"
    ]  # fmt: skip
    assert [prompt.group for prompt in prompts] == [0, 0, 1, 1, 2, 2]
    assert [prompt.arrival_step for prompt in prompts] == [0, 2, 0, 3, 1, 4]
    assert len({prompt.seed for prompt in prompts}) == 6
    assert len({len(prompt.token_ids) for prompt in prompts}) == 3
    for prompt in prompts:
        assert prompt.token_ids == workload.tokenizer.encode(plan.problems[prompt.group].conversation())
        assert (prompt.max_tokens, prompt.stop_token_ids) == (16, [256])
        assert prompt.sampling == {**CONFORMING, "seed": prompt.seed}
        gate.check(prompt.sampling, request_id=prompt.request_id)


def test_both_arms_and_a_second_run_ask_the_same(workload):
    assert Workload(SETTINGS, ByteTokenizer(300)).plan_round(7).prompts == workload.plan_round(7).prompts


def test_request_seed_by_hand():
    digest = hashlib.sha256(b"samebits.request.v1\x005\x002\x001\x000").digest()
    assert request_seed(5, 2, 1, 0) == int.from_bytes(digest[:8], "big") // 2
    seeds = {request_seed(*place) for place in [(5, 2, 1, 0), (5, 2, 0, 1), (5, 1, 2, 0), (2, 5, 1, 0), (5, 21, 0, 0)]}
    assert len(seeds) == 5
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize(("spread", "steps"), [(0, [0] * 6), (5, [0, 1, 2, 3, 4, 5]), (12, [0, 2, 4, 6, 8, 10])])
def test_arrivals_are_spread_evenly(spread, steps):
    got = [arrival_step(p, s, problems=3, samples=2, spread=spread) for s in range(2) for p in range(3)]
    assert got == steps


def test_rewards(workload):
    plan = workload.plan_round(0)
    right = list(plan.problems[0].answer.encode())
    responses = [[*right, 256], [256], right[:0], [*b"no"], [*b"no", 256], [300 - 1]]
    assert plan.rewards(responses) == [1.0, 1 / 16, 0.0, 0.0, 1 / 16, 0.0]
    assert [plan.text(response) for response in responses[3:]] == ["no", "no", "\ufffd"]
    with pytest.raises(ValueError, match="shorter"):
        plan.rewards(responses[:5])


def test_fits(workload):
    longest = max(len(prompt.token_ids) for index in range(3) for prompt in workload.plan_round(index).prompts)
    assert workload.longest(3) == longest
    workload.check_fits(3, longest + 16)
    with pytest.raises(InputError) as refused:
        workload.check_fits(3, longest + 15)
    assert str(refused.value) == (
        f"engine.max_model_len: found {longest + 15}; accepted: at least {longest + 16}: the longest prompt and "
        "workload.max_response_tokens. Raise it, or ask for shorter responses."
    )


def test_opens_a_model_folder(chat_folder):
    plan = Workload.open(SETTINGS, chat_folder).plan_round(0)
    assert plan.prompts[0].stop_token_ids == [0]
    assert plan.prompts[0].token_ids[0] == 1
