"""The verifiable reward of one answer.

=====================================================  ==========================================================
the answer                                             reward
=====================================================  ==========================================================
its last number is right, as reasoning-gym scores it   1
otherwise                                              the sum of the four below, less than 5/16
 contains exactly one number                           1/8              format
 ended with a stop token                               1/16             brevity
 share of its visible characters that are in numbers   1/16 × share     brevity
 last number is off by d                               1/16 / (1 + d)   nearness
=====================================================  ==========================================================

Graded parts beside correctness are common GRPO practice (format: DeepSeek-R1, arXiv:2501.12948, 2.2.2; length: DAPO,
arXiv:2503.14476, 3.4).  Here they have one more use: a group whose answers are all wrong still has rewards that
differ, so its advantages are not all zero and the step is a real one (rule 7).
"""

from __future__ import annotations

from samebits.workload.problems import NUMBER, Problem
from samebits.workload.requirements import require

CORRECT = 1.0
ONE_NUMBER = 1 / 8
STOPPED = 1 / 16
CONCISE = 1 / 16
NEAR = 1 / 16


def reward(problem: Problem, text: str, *, stopped: bool) -> float:
    """The reward of the answer ``text``; ``stopped`` says that it ended with a stop token, not at its length limit."""
    numbers = NUMBER.findall(text)
    if numbers and is_right(problem, numbers[-1]):
        return CORRECT
    visible = len("".join(text.split()))
    share = sum(map(len, numbers)) / visible if visible else 0.0
    near = 1 / (1 + abs(_value(numbers[-1]) - _value(problem.answer))) if numbers else 0.0
    return (len(numbers) == 1) * ONE_NUMBER + stopped * STOPPED + share * CONCISE + near * NEAR


def is_right(problem: Problem, answer: str) -> bool:
    """Whether reasoning-gym gives ``answer`` the full score; its partial scores count as wrong."""
    score = require("reasoning_gym", "reasoning-gym").get_score_answer_fn(problem.entry["metadata"]["source_dataset"])
    return bool(score(answer, problem.entry) == 1.0)


def _value(number: str) -> float:
    """Infinite where the number is too large for a float: then it is near nothing."""
    return float(number.replace(",", ""))
