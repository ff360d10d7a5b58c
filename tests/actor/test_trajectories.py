from __future__ import annotations

import pytest

from samebits.actor.protocol import Tokens
from samebits.actor.trajectories import check_rewards, check_trajectories
from samebits.errors import InputError


def one(token_ids=(1, 2, 3), prompt_length=1, request_id="r"):
    return Tokens(request_id=request_id, token_ids=list(token_ids), prompt_length=prompt_length, group=0)


@pytest.mark.parametrize(
    ("trajectories", "message"),
    [
        (
            [],
            "trajectories: found an empty list; accepted: at least one trajectory. Generate before you recompute.",
        ),
        (
            [one(), one(prompt_length=0, request_id="s")],
            (
                "trajectories[1].prompt_length: found 0; accepted: 1 or more. "
                "The first response token needs a token before it to be predicted from."
            ),
        ),
        (
            [one(prompt_length=3)],
            (
                "trajectories[0].token_ids: found 3 tokens with a prompt of 3; accepted: at least one response token. "
                "A trajectory without a generated token proves nothing; leave it out."
            ),
        ),
        (
            [one(range(9))],
            (
                "trajectories[0].token_ids: found 9 tokens; accepted: at most max_model_len = 8. "
                "Give engine and actor one max_model_len."
            ),
        ),
        (
            [one((1, 10))],
            "trajectories[0].token_ids: found 10; accepted: 0 to 9. Engine and actor must hold the same model.",
        ),
        (
            [one((1, -1))],
            "trajectories[0].token_ids: found -1; accepted: 0 to 9. Engine and actor must hold the same model.",
        ),
        (
            [one(), one()],
            (
                "trajectories[1].request_id: found 'r' twice; accepted: each request once. "
                "Send every trajectory of the round once."
            ),
        ),
    ],
)
def test_what_cannot_be_computed(trajectories, message):
    with pytest.raises(InputError) as caught:
        check_trajectories(trajectories, vocab_size=10, max_model_len=8)
    assert str(caught.value) == message


def test_what_just_fits():
    check_trajectories([one((0, 9) * 4), one(prompt_length=2, request_id="s")], vocab_size=10, max_model_len=8)


def test_rewards_are_counted():
    with pytest.raises(InputError) as caught:
        check_rewards([1.0, 0.0], [one()])
    assert str(caught.value) == (
        "rewards: found 2 rewards; accepted: 1, one per trajectory. Score every trajectory of the round."
    )


def test_rewards_are_finite():
    with pytest.raises(InputError) as caught:
        check_rewards([0.0, float("nan")], [one(), one(request_id="s")])
    assert str(caught.value) == "rewards[1]: found nan; accepted: a finite number. Mend the reward function."
