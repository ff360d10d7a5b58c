"""The catalogue of faults is whole, and a few go through the whole path here; ``nox -s faults`` tries all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
NAMED = {
    "one bit of one logprob",
    "two tokens swapped on the way to the actor",
    "off by one in alignment",
    "a prompt token counted",
    "a token missing in the rollout's logprobs",
    "NaN on all sides",
    "-0.0 against +0.0",
    "stale refit",
    "one tensor not refitted",
    "recompute copied from the rollout",
    "training forward taken after the step",
    "recompute and training forward the same tensor",
    "a trajectory over two versions",
    "temperature 0.999",
    "top-p 0.95",
    "a logit bias on one token",
    "an empty run",
    "one trajectory empty",
    "control arm identical to the run",
    "ten refits with a zero learning rate",
    "a refit counted twice",
    "a request sampled with another's seed",
    "a neighbour-dependent random stream",
    "a padding row that leaks into a norm",
    "a KV page shared by two sequences",
    "a preempted sequence resumed one token late",
    "all logits uniform",
    "configuration changed after the gate",
    "an environment variable flipped during the run",
}
"""What was asked for by name."""
TRIED = {
    "clean twin, dense": "nothing: it passes",
    "one bit of one logprob": "bits.equal",
    "recompute and training forward the same tensor": "independence.probe",
    "temperature 0.999": "refused: request 'r0-p0-s0': temperature",
    "a part and the manifest changed together": "independence.commitments",
    "evidence forged alike on all sides": "replay",
}


def faults(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "faults", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        timeout=900,
    )


def test_the_catalogue_names_each_fault_once() -> None:
    from faults.catalogue import FAULTS, TWINS  # noqa: PLC0415 - torch

    names = [fault.name for fault in (*TWINS, *FAULTS)]
    assert len(set(names)) == len(names)
    assert len(FAULTS) >= 40
    assert set(names) >= NAMED
    assert {fault.recipe for fault in FAULTS} == {fault.recipe for fault in TWINS}


@pytest.fixture(scope="module")
def tried() -> dict[str, Any]:
    ended = faults("--json", "--only", f"^({'|'.join(TRIED)})$")
    return {row["fault"]: row for row in json.loads(ended.stdout)["faults"]}


@pytest.mark.parametrize("name", TRIED)
def test_it_is_caught_by_the_check_that_it_names(tried: dict[str, Any], name: str) -> None:
    row = tried[name]
    assert (row["by"], row["caught"]) == (TRIED[name], True), row
