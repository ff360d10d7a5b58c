"""What the actor accepts as trajectories: checked before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from samebits.actor.protocol import Tokens
from samebits.errors import InputError


def check_trajectories(trajectories: Sequence[Tokens], *, vocab_size: int, max_model_len: int) -> None:
    """Every trajectory has a prompt, a response and known tokens, and fits.

    Raises:
        InputError: the first that does not, by its place in the list.
    """
    if not trajectories:
        raise InputError(
            "trajectories",
            found="an empty list",
            accepted="at least one trajectory",
            next_step="Generate before you recompute.",
        )
    seen: set[str] = set()
    for index, trajectory in enumerate(trajectories):
        field = f"trajectories[{index}]"
        length = len(trajectory.token_ids)
        if trajectory.prompt_length < 1:
            raise InputError(
                f"{field}.prompt_length",
                found=trajectory.prompt_length,
                accepted="1 or more",
                next_step="The first response token needs a token before it to be predicted from.",
            )
        if length <= trajectory.prompt_length:
            raise InputError(
                f"{field}.token_ids",
                found=f"{length} tokens with a prompt of {trajectory.prompt_length}",
                accepted="at least one response token",
                next_step="A trajectory without a generated token proves nothing; leave it out.",
            )
        if length > max_model_len:
            raise InputError(
                f"{field}.token_ids",
                found=f"{length} tokens",
                accepted=f"at most max_model_len = {max_model_len}",
                next_step="Give engine and actor one max_model_len.",
            )
        if not all(0 <= token < vocab_size for token in trajectory.token_ids):
            stray = next(token for token in trajectory.token_ids if not 0 <= token < vocab_size)
            raise InputError(
                f"{field}.token_ids",
                found=stray,
                accepted=f"0 to {vocab_size - 1}",
                next_step="Engine and actor must hold the same model.",
            )
        if trajectory.request_id in seen:
            raise InputError(
                f"{field}.request_id",
                found=f"{trajectory.request_id!r} twice",
                accepted="each request once",
                next_step="Send every trajectory of the round once.",
            )
        seen.add(trajectory.request_id)


def check_rewards(rewards: Sequence[float], trajectories: Sequence[Tokens]) -> None:
    """One finite reward per trajectory.

    Raises:
        InputError: another count, or a reward that is not finite.
    """
    if len(rewards) != len(trajectories):
        raise InputError(
            "rewards",
            found=f"{len(rewards)} rewards",
            accepted=f"{len(trajectories)}, one per trajectory",
            next_step="Score every trajectory of the round.",
        )
    for index, reward in enumerate(rewards):
        if not math.isfinite(reward):
            raise InputError(
                f"rewards[{index}]",
                found=reward,
                accepted="a finite number",
                next_step="Mend the reward function.",
            )
