"""One policy update being gathered: what the training forward's packs go into."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from samebits.actor.loss import clipped_loss, importance_ratio
from samebits.bits import Bits, to_float32


class PolicyUpdate:
    """A ``policy.Objective`` that runs each pack's backward and counts what it saw.

    The old logprobs of the ratio are the actor's own recomputed ones, never the rollout's: the actor has no others.
    """

    def __init__(self, old: Sequence[Bits], advantages: Sequence[float], clip_epsilon: float) -> None:
        """``old`` and ``advantages``: one entry per trajectory, in request order."""
        self.advantages = list(advantages)
        self.loss = 0.0
        self.off_policy_tokens = 0
        self._old = [to_float32(patterns) for patterns in old]
        self._clip_epsilon = clip_epsilon
        self._tokens = sum(len(patterns) for patterns in old)

    def __call__(self, pack: list[int], logprobs: Tensor) -> None:
        """Adds the pack's share of the loss, and its gradients to the weights that ``logprobs`` came from."""
        old = torch.from_numpy(np.concatenate([self._old[index] for index in pack])).to(logprobs.device)
        advantages = np.repeat([self.advantages[index] for index in pack], [len(self._old[index]) for index in pack])
        ratio = importance_ratio(logprobs, old)
        loss = clipped_loss(
            ratio,
            torch.from_numpy(advantages.astype(np.float32)).to(logprobs.device),
            clip_epsilon=self._clip_epsilon,
            tokens=self._tokens,
        )
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.loss += loss.item()
        self.off_policy_tokens += int((ratio != 1).sum())
