"""Rules 1 and 2: the right tokens, and the same finite bits for every one of them."""

from __future__ import annotations

from samebits.oracle.findings import Check, Exactness, Faults, settle, worst
from samebits.oracle.measured import Measured
from samebits.oracle.model_facts import vocab_size
from samebits.oracle.tokens import PAIRS, THREE
from samebits.oracle.trajectories import ArmTrajectories
from samebits.recipe import Recipe

_EMPTY = "no response token was compared"


def check(measured: Measured, recipe: Recipe) -> list[Check]:
    """Alignment, masking, equality, finiteness, and that there was something to compare."""
    aligned = measured.tokens.arms["aligned"]
    return [
        _alignment(measured, recipe),
        settle(
            "tokens.masked",
            1,
            exercised=aligned.prompt_tokens,
            faults=measured.tokens.masking,
            passed="prompt tokens are masked out and have no logprobs; every response token has all three",
            vacuous="there is no prompt token, so nothing was masked",
        ),
        _equal(measured),
        _finite(measured),
        settle(
            "bits.every-trajectory",
            2,
            exercised=measured.trajectories["aligned"].count,
            faults=measured.trajectories["aligned"].empty,
            passed="every trajectory has at least one response token",
            vacuous="there are no trajectories",
        ),
        _enough(measured, recipe),
    ]


def exactness(measured: Measured, checks: list[Check]) -> Exactness:
    """Rules 1 and 2 in one verdict."""
    three = measured.tokens.arms["aligned"].three
    return Exactness(
        verdict=worst(one.status for one in checks if one.rule in {1, 2}),
        compared=three.compared,
        mismatches=three.mismatches,
        non_finite=three.non_finite,
        first=three.first,
    )


def _alignment(measured: Measured, recipe: Recipe) -> Check:
    """Token rows against the trajectories table, and that against what the recipe asks for."""
    faults = Faults()
    if measured.tokens.alignment:
        faults.add(str(measured.tokens.alignment), measured.tokens.alignment.count)
    for arm, found in measured.trajectories.items():
        if found.shape:
            faults.add(str(found.shape), found.shape.count)
        for fault in _unlike_the_recipe(found, recipe):
            faults.add(f"{arm}: {fault}")
    vocabulary = vocab_size(recipe.model)
    for arm, tokens in measured.tokens.arms.items():
        if tokens.highest_id >= vocabulary:
            faults.add(f"{arm}: token {tokens.highest_id} is not in the vocabulary of {vocabulary}")
    return settle(
        "tokens.aligned",
        1,
        exercised=measured.tokens.arms["aligned"].response_tokens,
        faults=faults,
        passed="token rows are the trajectories, in order, position by position, prompt before response",
        vacuous=_EMPTY,
    )


def _unlike_the_recipe(found: ArmTrajectories, recipe: Recipe) -> list[str]:
    """How many trajectories, in what groups, how long."""
    workload = recipe.workload
    wanted = workload.problems_per_round * workload.samples_per_problem
    samples, longest = workload.samples_per_problem, workload.max_response_tokens
    faults = [
        f"round {round_} has {count} trajectories; the recipe asks for {wanted}"
        for round_, count in found.by_round.items()
        if count != wanted
    ]
    faults += [
        f"a group of {size}; the recipe asks for {samples} samples a problem"
        for size in sorted(found.group_sizes)
        if size != samples
    ]
    if found.longest > longest:
        faults.append(f"a response of {found.longest} tokens; the recipe allows {longest}")
    return faults


def _equal(measured: Measured) -> Check:
    aligned = measured.tokens.arms["aligned"]
    faults = Faults(told=len(PAIRS))
    for left, right in PAIRS:
        pair = aligned.pairs[left, right]
        if right in THREE and pair.mismatches:
            faults.add(f"{left}/{right}: {pair.mismatches} of {pair.compared} tokens differ", pair.mismatches)
    return settle(
        "bits.equal",
        2,
        exercised=aligned.three.compared,
        faults=faults,
        passed="rollout, recompute and training forward have the same bits for every response token",
        vacuous=_EMPTY,
    )


def _finite(measured: Measured) -> Check:
    aligned = measured.tokens.arms["aligned"]
    faults = Faults()
    if aligned.three.non_finite:
        faults.add(
            f"{aligned.three.non_finite} tokens have a logprob that is infinite or NaN", aligned.three.non_finite
        )
    return settle(
        "bits.finite",
        2,
        exercised=aligned.three.compared,
        faults=faults,
        passed="every compared logprob is finite",
        vacuous=_EMPTY,
    )


def _enough(measured: Measured, recipe: Recipe) -> Check:
    compared, wanted = measured.tokens.arms["aligned"].three.compared, recipe.certification.min_tokens
    return Check(
        name="bits.enough",
        rule=2,
        status="passed" if compared >= wanted else "vacuous",
        exercised=compared,
        detail=f"{compared} tokens were compared; the recipe asks for at least {wanted}",
    )
