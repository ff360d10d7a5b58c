from __future__ import annotations

import numpy as np
import pytest
import torch

from samebits.actor.loss import clipped_loss, group_advantages, importance_ratio


def test_advantages_are_normalised_within_their_group():
    advantages = group_advantages([1.0, 0.0, 5.0, 1.0, 7.0], [0, 0, 1, 0, 1])
    assert advantages == [
        (1 - 2 / 3) / (np.sqrt(1 / 3) + 1e-6),
        (0 - 2 / 3) / (np.sqrt(1 / 3) + 1e-6),
        (5 - 6) / (np.sqrt(2) + 1e-6),
        (1 - 2 / 3) / (np.sqrt(1 / 3) + 1e-6),
        (7 - 6) / (np.sqrt(2) + 1e-6),
    ]


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1])
def test_a_group_without_variance_has_zero_advantage(reward):
    # The float mean of three times 0.1 is not 0.1.
    assert group_advantages([reward, 3.0, reward, reward], [0, 9, 0, 0]) == [0.0, 0.0, 0.0, 0.0]


def test_ratio_is_exactly_one_on_the_same_bits():
    logprobs = torch.tensor([-0.1, -3.7, -0.0, -88.0])
    assert importance_ratio(logprobs, logprobs.clone()).tolist() == [1.0] * 4


def test_loss_and_gradient_against_float64():
    rng = np.random.default_rng(0)
    old = rng.normal(-2, 1, 200)
    new = old + rng.normal(0, 0.3, 200)
    advantage = rng.normal(0, 1, 200)
    ratio = np.exp(new - old)
    surrogate = np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
    clipped = ((advantage > 0) & (ratio > 1.2)) | ((advantage < 0) & (ratio < 0.8))
    assert 20 < clipped.sum() < 180

    logprobs = torch.tensor(new, dtype=torch.float32, requires_grad=True)
    loss = clipped_loss(
        importance_ratio(logprobs, torch.tensor(old, dtype=torch.float32)),
        torch.tensor(advantage, dtype=torch.float32),
        clip_epsilon=0.2,
        tokens=500,
    )
    loss.backward()
    np.testing.assert_allclose(loss.item(), -surrogate.sum() / 500, rtol=1e-5)
    expected = np.where(clipped, 0.0, -ratio * advantage / 500)
    np.testing.assert_allclose(logprobs.grad.numpy(), expected, rtol=1e-5, atol=1e-9)


def test_on_policy_gradient_is_the_whole_advantage():
    # min() has a tie everywhere here; half of the gradient each must come to all of it.
    logprobs = torch.tensor([-1.0, -2.0], requires_grad=True)
    advantages = torch.tensor([0.5, -1.5])
    clipped_loss(importance_ratio(logprobs, logprobs.detach()), advantages, clip_epsilon=0.2, tokens=2).backward()
    assert logprobs.grad.tolist() == [-0.25, 0.75]
