"""A workload at work: the requests of each round, and the rewards of what came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import InputError
from samebits.recipe.model import Workload as WorkloadSettings
from samebits.recipe.sampling import CONFORMING
from samebits.workload.problems import Problem, round_problems
from samebits.workload.requests import Prompt, arrival_step, request_seed, response_limit
from samebits.workload.reward import reward
from samebits.workload.tokenizer import Tokenizer, open_tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundPlan:
    """One round: its requests in order, the samples of one problem next to each other."""

    problems: list[Problem]
    prompts: list[Prompt]
    tokenizer: Tokenizer

    def text(self, response: Sequence[int]) -> str:
        """What a response says."""
        return self.tokenizer.decode(response)

    def rewards(self, responses: Sequence[Sequence[int]]) -> list[float]:
        """One reward per response, in request order.

        Raises:
            ValueError: not as many responses as requests.
        """
        stops = self.tokenizer.stop_token_ids
        return [
            reward(
                self.problems[prompt.group], self.text(response), stopped=len(response) > 0 and response[-1] in stops
            )
            for prompt, response in zip(self.prompts, responses, strict=True)
        ]


class Workload:
    """The problems of a recipe, for the model in one folder."""

    def __init__(self, settings: WorkloadSettings, tokenizer: Tokenizer) -> None:
        self.settings = settings
        self.tokenizer = tokenizer

    @classmethod
    def open(cls, settings: WorkloadSettings, folder: Path) -> Workload:
        """The workload ``settings`` with the tokenizer of the model ``folder``.

        Raises:
            InputError: the folder holds no usable model.
            MachineError: a package is not installed.
        """
        return cls(settings, open_tokenizer(folder))

    def plan_round(self, round_index: int) -> RoundPlan:
        """The round's problems and requests; a function of the settings, the tokenizer and ``round_index`` alone.

        Raises:
            InputError: ``settings.problems`` is no task with numbers for answers.
            MachineError: reasoning-gym is not installed.
        """
        settings = self.settings
        problems = round_problems(settings, round_index)
        prompts = []
        for group, problem in enumerate(problems):
            token_ids = self.tokenizer.encode(problem.conversation())
            prompts += [
                self._prompt(round_index, group, sample, token_ids) for sample in range(settings.samples_per_problem)
            ]
        return RoundPlan(problems=problems, prompts=prompts, tokenizer=self.tokenizer)

    def longest(self, rounds: int) -> int:
        """Tokens of the longest prompt of ``rounds`` rounds: with the response it must fit ``engine.max_model_len``."""
        return max(len(prompt.token_ids) for index in range(rounds) for prompt in self.plan_round(index).prompts)

    def check_fits(self, rounds: int, max_model_len: int) -> None:
        """That every request of ``rounds`` rounds fits the engine, before any of them runs.

        Raises:
            InputError: the longest one does not.
        """
        needed = self.longest(rounds) + self.settings.max_response_tokens
        if needed > max_model_len:
            raise InputError(
                "engine.max_model_len",
                found=max_model_len,
                accepted=f"at least {needed}: the longest prompt and workload.max_response_tokens",
                next_step="Raise it, or ask for shorter responses.",
            )

    def _prompt(self, round_index: int, group: int, sample: int, token_ids: list[int]) -> Prompt:
        settings = self.settings
        seed = request_seed(settings.seed, round_index, group, sample)
        return Prompt(
            request_id=f"r{round_index}-p{group}-s{sample}",
            token_ids=token_ids,
            group=group,
            max_tokens=response_limit(seed, settings.min_response_tokens, settings.max_response_tokens),
            seed=seed,
            stop_token_ids=list(self.tokenizer.stop_token_ids),
            sampling={**CONFORMING, "seed": seed},
            arrival_step=arrival_step(
                group,
                sample,
                problems=settings.problems_per_round,
                samples=settings.samples_per_problem,
                spread=settings.arrival_spread_steps,
            ),
        )
