"""A short campaign, always the same; ``nox -s fuzz`` runs 100,000 inputs of another one each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import campaign, planted
from fuzz.target import Target, input_of
from fuzz.targets import TARGETS

SEED = 20261130
IN_A_PROCESS = ("damaged evidence", "edited evidence")
"""C code reads these, so that a fault may take the process with it."""


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in IN_A_PROCESS])
def test_no_crash_no_hang_no_false_pass(name: str) -> None:
    target = TARGETS[name]()
    outcomes = [campaign.attempt(target, SEED, number) for number in range(150)]
    assert [(number, what) for number, (_, what) in enumerate(outcomes) if what is not None] == []
    assert {accepted for accepted, _ in outcomes} == {True, False}, "a mutator that never or always succeeds is no test"


@pytest.mark.parametrize("name", IN_A_PROCESS)
def test_no_death_either(name: str) -> None:
    tally = campaign.run(name, SEED, 40)
    assert tally.failures == []
    assert 0 < tally.accepted < tally.inputs


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_are_reproducible_and_all_different(name: str) -> None:
    one, two = TARGETS[name](), TARGETS[name]()
    inputs = [input_of(one, SEED, number) for number in range(20)]
    assert [input_of(two, SEED, number) for number in reversed(range(20))] == inputs[::-1]
    assert len(set(inputs)) > 15
    assert input_of(one, SEED + 1, 0) != inputs[0]


def test_shares_are_of_a_hundred() -> None:
    assert sum(target.share for target in TARGETS.values()) == 100


# The fuzzer itself


@pytest.mark.parametrize(
    ("target", "what"),
    [
        (planted.Sound, None),
        (planted.Crashes, "KeyError: 'no such thing'"),
        (planted.Mistakes, "FalsePass: taken for the genuine one"),
        (planted.Loops, "hang: longer than 0.5 s"),
        (planted.Swallows, "hang: longer than 0.5 s"),
    ],
)
def test_a_planted_fault_is_found(target: type[Target], what: str | None) -> None:
    outcomes = [campaign.attempt(target(), 0, number, 0.5) for number in range(5)]
    found = [(number, said.splitlines()[0]) for number, (_, said) in enumerate(outcomes) if said is not None]
    assert found == ([] if what is None else [(planted.SHOWN, what)])


@pytest.mark.parametrize(
    ("target", "what"), [(planted.Sleeps, "hang: no alarm woke it"), (planted.Dies, "died with -9")]
)
def test_a_fault_that_takes_the_process_with_it_is_found_and_the_rest_still_run(
    target: type[Target], what: str, tmp_path: Path
) -> None:
    tally = campaign.run(target.name, 0, 6, seconds=2.0)
    assert [(failure.number, failure.what) for failure in tally.failures] == [(planted.SHOWN, what)]
    (path,) = campaign.failing(target(), tally.failures, tmp_path / "saved")
    assert path.read_bytes() == input_of(target(), 0, planted.SHOWN)
    assert path.with_suffix(".txt").read_text() == what
