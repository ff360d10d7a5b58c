"""Problems: real, the same for everybody, and of mixed lengths."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from samebits.errors import InputError
from samebits.recipe.model import Workload as Settings
from samebits.workload import round_problems
from samebits.workload.problems import NUMBER, Problem
from samebits.workload.problems import _problem as problem_of

SETTINGS = Settings(problems="chain_sum", seed=5, problems_per_round=8, samples_per_problem=2, max_response_tokens=16)
ACCEPTED = "a task of reasoning-gym whose answers are numbers"
CHOOSE = "Choose chain_sum, gcd, products or another."
WORDS = "'spell_backward', which has the answer 'hctiptuo'"
ASKED = "State the final answer to the following arithmetic problem: "


def test_golden_problems():
    # Other problems here mean other certificates: reasoning-gym changed, or the seeds.
    problems = round_problems(SETTINGS, 0)
    assert [(problem.question.removeprefix(ASKED), problem.answer) for problem in problems[:3]] == [
        ("1 + 0 - 7 =", "-6"),
        ("3 - 5 =", "-2"),
        ("1 + 7 - 8 =", "0"),
    ]


def test_answers_are_right_and_easy():
    for problem in round_problems(SETTINGS, 3):
        expression = problem.question.removeprefix(ASKED).removesuffix(" =")
        assert re.fullmatch(r"[0-9]( [+-] [0-9]){1,2}", expression)
        terms = expression.replace("- ", "-").replace("+ ", "").split()
        assert sum(map(int, terms)) == int(problem.answer)


def test_depends_on_seed_round_and_index_only():
    here = round_problems(SETTINGS, 1)
    assert round_problems(SETTINGS, 1) == here
    assert round_problems(SETTINGS, 2) != here
    assert round_problems(SETTINGS.model_copy(update={"seed": 6}), 0) != here
    assert round_problems(SETTINGS.model_copy(update={"samples_per_problem": 9}), 1) == here


def test_rounds_share_no_neighbouring_seeds():
    # reasoning-gym draws entry i from seed + i: unhashed, round 1 would repeat round 0 shifted by one.
    first, second = ([problem.question for problem in round_problems(SETTINGS, index)] for index in (0, 1))
    assert first[1:] != second[:-1]
    assert first[:-1] != second[1:]


def test_mixed_lengths_by_design():
    problems = round_problems(SETTINGS, 0)
    assert [len(problem.examples) for problem in problems] == [0, 1, 2, 3, 0, 1, 2, 3]
    for problem in problems:
        conversation = problem.conversation()
        assert len(conversation) == 2 * len(problem.examples) + 1
        assert conversation[-1] == {"role": "user", "content": problem.question}
        assert [turn["role"] for turn in conversation[:2]] in (["user"], ["user", "assistant"])
        assert problem.question not in [question for question, _ in problem.examples]


def test_an_example_never_gives_the_answer_away():
    # Two problems, then three examples for each; index 1 shows the first of its own three, entry 5.
    entries = [{"question": name, "answer": "0"} for name in "ABCDEFGH"]
    assert problem_of(entries, 1, 2, 3, 1) == Problem(
        question="B", answer="0", entry=entries[1], examples=(("F", "0"),)
    )
    entries[5] = {"question": "B", "answer": "0"}
    assert problem_of(entries, 1, 2, 3, 1).examples == ()


def test_conversation_of_an_example():
    problem = Problem(question="2 + 2 =", answer="4", entry={}, examples=(("1 + 1 =", "2"),))
    assert problem.conversation() == [
        {"role": "user", "content": "1 + 1 ="},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "2 + 2 ="},
    ]


@pytest.mark.parametrize("task", ["basic_arithmetic", "chain_sum", "gcd", "products", "gsm_symbolic", "leg_counting"])
def test_tasks_with_numbers_for_answers(task):
    problems = round_problems(SETTINGS.model_copy(update={"problems": task}), 0)
    assert len(problems) == 8
    assert all(NUMBER.fullmatch(problem.answer) for problem in problems)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            "chain_summ",
            f"workload.problems: found 'chain_summ'; accepted: {ACCEPTED}. Did you mean 'chain_sum'?",
        ),
        (
            "§",
            f"workload.problems: found '§'; accepted: {ACCEPTED}. {CHOOSE}",
        ),
        (
            "spell_backward",
            f"workload.problems: found {WORDS}; accepted: {ACCEPTED}. {CHOOSE}",
        ),
    ],
)
def test_refuses_other_tasks(task, message):
    with pytest.raises(InputError) as refused:
        round_problems(SETTINGS.model_copy(update={"problems": task}), 0)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("-7", ["-7"]),
        ("The answer is 1,219.", ["1,219"]),
        ("5-9 = -4", ["5", "9", "-4"]),
        ("0.25 or .5", ["0.25", "5"]),
        ("3.14.15", ["3.14", "15"]),
        ("1,2", ["1", "2"]),
        ("none, ½ and ٣", []),
    ],
)
def test_numbers(text, numbers):
    assert NUMBER.findall(text) == numbers


def test_no_torch():
    code = (
        "import sys; from samebits.workload import *; from samebits.recipe.model import Workload as S; "
        "w = Workload(S(problems='chain_sum', problems_per_round=1, samples_per_problem=2, max_response_tokens=4), "
        "ByteTokenizer(257)); w.plan_round(0).rewards([[49], [50]]); print('torch' in sys.modules)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout == "False\n"
