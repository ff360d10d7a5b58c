"""Exact rewards: each part alone, then together."""

from __future__ import annotations

import pytest

from samebits.workload import Problem, reward

PROBLEM = Problem(question="6 + 7 =", answer="13", entry={"answer": "13", "metadata": {"source_dataset": "chain_sum"}})


@pytest.mark.parametrize(
    ("text", "stopped", "expected"),
    [
        # Right: 1, whatever is around it.
        ("13", True, 1.0),
        ("13", False, 1.0),
        ("6 + 7 is\n+13.0", False, 1.0),
        ("Not 12 but 13!", True, 1.0),
        # Right first, then another number: the last one counts.
        ("13 or 14", False, 4 / 6 / 16 + 1 / 2 / 16),
        # Nothing.
        ("", False, 0.0),
        ("I do not know", False, 0.0),
        # Stopped only.
        ("", True, 1 / 16),
        ("I do not know", True, 1 / 16),
        # One number, alone: format 1/8, all visible characters, off by 3.
        ("10", False, 1 / 8 + 1 / 16 + 1 / 4 / 16),
        ("10", True, 1 / 8 + 1 / 16 + 1 / 16 + 1 / 4 / 16),
        ("-13", False, 1 / 8 + 1 / 16 + 1 / 27 / 16),
        # One number in words: 2 of 8 visible characters.
        ("it is\t10.", False, 1 / 8 + 2 / 7 / 16 + 1 / 4 / 16),
        # Two numbers: no format part.
        ("1 2", True, 1 / 16 + 1 / 16 + 1 / 12 / 16),
        # Thousands, and a number too large for a float.
        ("1,012", False, 1 / 8 + 1 / 16 + 1 / 1000 / 16),
        ("9" * 400, False, 1 / 8 + 1 / 16),
    ],
)
def test_exact(text, stopped, expected):
    assert reward(PROBLEM, text, stopped=stopped) == expected


def test_wrong_is_always_worth_less_than_right():
    near = Problem(question="", answer="100000", entry={**PROBLEM.entry, "answer": "100000"})
    assert reward(near, "100001", stopped=True) == 1 / 8 + 1 / 16 + 1 / 16 + 1 / 32


def test_partial_scores_of_reasoning_gym_count_as_wrong():
    # gcd uses the default scoring: an answer that contains the right one gets its share there, 1/2 here for "80".
    problem = Problem(question="", answer="8", entry={"answer": "8", "metadata": {"source_dataset": "gcd"}})
    assert reward(problem, "8", stopped=False) == 1.0
    assert reward(problem, "80", stopped=False) == 1 / 8 + 1 / 16 + 1 / 73 / 16
