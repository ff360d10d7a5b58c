"""The policy-gradient loss: GRPO's group-normalised advantages in PPO's clipped objective.

DeepSeekMath (arXiv:2402.03300), section 4.1, without its KL term and with the mean over all tokens of the batch
(DAPO, arXiv:2503.14476, section 3.3) instead of per answer first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, stdev

import torch
from torch import Tensor

_STD_FLOOR = 1e-6
"""Added to a group's standard deviation, as verl does."""


def group_advantages(rewards: Sequence[float], groups: Sequence[int]) -> list[float]:
    """Each reward less its group's mean, over the group's sample standard deviation.

    A group whose rewards are all the same says nothing about its answers: its advantages are exactly 0, also where
    the mean of equal floats would round away from them.
    """
    members: dict[int, list[float]] = defaultdict(list)
    for reward, group in zip(rewards, groups, strict=True):
        members[group].append(reward)
    scales = {
        group: (fmean(values), stdev(values) + _STD_FLOOR)
        for group, values in members.items()
        if min(values) != max(values)
    }
    return [
        (reward - scales[group][0]) / scales[group][1] if group in scales else 0.0
        for reward, group in zip(rewards, groups, strict=True)
    ]


def importance_ratio(logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
    """``exp(logprobs − old_logprobs)`` per token; exactly 1 where both have the same bits."""
    return torch.exp(logprobs - old_logprobs)


def clipped_loss(ratio: Tensor, advantages: Tensor, *, clip_epsilon: float, tokens: int) -> Tensor:
    """PPO's clipped objective (arXiv:1707.06347, equation 7), negated: this pack's share of the mean over ``tokens``.

    ``ratio`` and ``advantages`` are fp32 [R], one per response token of the pack; ``tokens`` counts the whole batch,
    so that the shares of all packs add up to the loss.
    """
    clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)
    return -torch.minimum(ratio * advantages, clipped * advantages).sum() / tokens
