"""Rules 3 and 4: three computations that could not have copied from each other, the last one before any step."""

from __future__ import annotations

from typing import Any

import numpy as np

from samebits.oracle.columns import Int64
from samebits.oracle.digests import SIDES
from samebits.oracle.findings import Check, Faults, settle
from samebits.oracle.measured import Event, Measured, Probe
from samebits.oracle.model_facts import layers
from samebits.oracle.tokens import THREE
from samebits.recipe import Recipe

_NO_LEDGER = "no commitment was recorded"


def check(measured: Measured, recipe: Recipe) -> list[Check]:
    """Commitments, their order, packings, the one-ulp probe, and the switches that would make it pointless."""
    return [
        _commitments(measured),
        _order(measured),
        _packing(measured),
        _probe(measured, recipe),
        _recomputed(measured, recipe),
        _first_forward(measured),
    ]


def probe_rows(measured: Measured) -> list[dict[str, Any]]:
    """The findings' ``probes``."""
    return [
        {
            "layer": layer,
            "compared": probe.compared,
            "changedRecompute": probe.changed_recompute,
            "changedTrain": probe.changed_train,
        }
        for layer, probe in measured.probes.items()
    ]


def _commitments(measured: Measured) -> Check:
    """Every digest that was committed to or revealed is the digest of the token rows."""
    faults, exercised = Faults(), 0
    for arm, found in measured.tokens.arms.items():
        for round_, digests in found.digests.items():
            ledger = measured.ledgers.get((arm, round_), [])
            for side, digest in digests.items():
                for kind in ("commit", "reveal"):
                    said = [event.digest for event in ledger if (event.event, event.side) == (kind, side)]
                    exercised += 1
                    if said != [digest]:
                        what = f"{len(said)} times" if len(said) != 1 else f"as {said[0][:16]}…"
                        faults.add(
                            f"{arm}, round {round_}: {kind} of {side} is recorded {what}; the rows say {digest[:16]}…"
                        )
    for arm, round_ in measured.ledgers:
        if arm not in measured.tokens.arms or round_ not in measured.tokens.arms[arm].digests:
            faults.add(f"{arm}, round {round_} has commitments but no tokens")
    return settle(
        "independence.commitments",
        3,
        exercised=exercised,
        faults=faults,
        passed="every committed and revealed digest is the digest of the recorded patterns",
        vacuous=_NO_LEDGER,
    )


def _order(measured: Measured) -> Check:
    """The rollout's patterns were shown only after both actor sides had committed."""
    faults = Faults()
    for (arm, round_), ledger in measured.ledgers.items():
        fault = _disorder(ledger)
        if fault:
            faults.add(f"{arm}, round {round_}: {fault}")
    return settle(
        "independence.order",
        3,
        exercised=len(measured.ledgers),
        faults=faults,
        passed="recompute and training forward were committed to before the rollout was revealed",
        vacuous=_NO_LEDGER,
        basis="attested",
    )


def _disorder(ledger: list[Event]) -> str | None:
    if [event.sequence for event in ledger] != list(range(len(ledger))):
        return "the ledger's numbers are not 0, 1, 2, …"
    place = {(event.event, event.side): index for index, event in enumerate(ledger)}
    for kind, side in place:
        if kind not in {"commit", "reveal"} or side not in SIDES:
            return f"the ledger has an unknown entry, {kind} {side}"
    for side in THREE:
        if ("commit", side) not in place or ("reveal", side) not in place:
            return f"{side} was not both committed to and revealed"
    for side in SIDES:
        if place.get(("reveal", side), -1) < place.get(("commit", side), -1):
            return f"{side} was revealed before it was committed to"
    for side in ("recompute", "train"):
        if place["reveal", "rollout"] < place["commit", side]:
            return f"the rollout was revealed before {side} was committed to"
    return None


def _packing(measured: Measured) -> Check:
    faults, exercised = Faults(), 0
    for round_, moved in measured.trajectories["aligned"].moved.items():
        exercised += moved
        if not moved:
            faults.add(f"round {round_}: recompute and training forward packed the same sequences together")
    return settle(
        "independence.packing",
        3,
        exercised=exercised,
        faults=faults,
        passed="in every round, trajectories had other neighbours in the training forward than in the recompute",
        vacuous="there are no trajectories",
    )


def _probe(measured: Measured, recipe: Recipe) -> Check:
    """One ulp on a layer's input norm must show on both actor sides, and on both in the same way."""
    wanted = layers(recipe.model)
    if not measured.probes:
        return Check(name="independence.probe", rule=3, status="not_run", exercised=0, detail="no layer was probed")
    faults = Faults()
    for layer in sorted(set(range(wanted)) ^ measured.probes.keys()):
        known = layer < wanted
        faults.add(f"layer {layer} was not probed" if known else f"layer {layer} is none of the model's {wanted}")
    sequences = recipe.certification.probe_sequences
    first = next(iter(measured.probes.values())).places
    for layer, probe in measured.probes.items():
        for fault in _probe_faults(probe):
            faults.add(f"layer {layer}: {fault}")
        if not np.array_equal(probe.places, first) or len(first) != probe.compared:
            faults.add(f"layer {layer} was not probed at the tokens of the others, each once")
    probed = np.unique(first[:, 0])
    if len(probed) != sequences:
        faults.add(f"{len(probed)} sequences were probed; the recipe asks for {sequences}")
    if not _are_responses(first, measured.trajectories["aligned"].responses_of(probed)):
        faults.add("the probed tokens are not whole responses of round 0")
    return settle(
        "independence.probe",
        3,
        exercised=len(measured.probes),
        faults=faults,
        passed="one ulp on the input norm of each layer in turn changes recompute and training forward alike",
        vacuous="no layer was probed",
    )


def _are_responses(places: Int64, responses: dict[int, tuple[int, int]]) -> bool:
    """Whether ``places`` [N, 2] are all positions of all ``responses``, each from its beginning to before its end."""
    if sum(end - begin for begin, end in responses.values()) != len(places):
        return False
    spans = (responses.get(trajectory, (0, 0)) for trajectory in places[:, 0].tolist())
    return all(begin <= position < end for position, (begin, end) in zip(places[:, 1].tolist(), spans, strict=True))


def _probe_faults(probe: Probe) -> list[str]:
    faults = []
    if not probe.changed_recompute:
        faults.append("the recompute did not change")
    if not probe.changed_train:
        faults.append("the training forward did not change")
    if probe.different_before:
        faults.append(f"recompute and training forward differ at {probe.different_before} tokens before the probe")
    if probe.different_probed:
        faults.append(f"recompute and training forward differ at {probe.different_probed} tokens under the probe")
    if probe.non_finite:
        faults.append(f"{probe.non_finite} tokens have a logprob that is infinite or NaN")
    return faults


def _recomputed(measured: Measured, recipe: Recipe) -> Check:
    faults = Faults()
    if recipe.actor.force_on_policy_ratio:
        faults.add("the recipe sets force_on_policy_ratio, which skips the recompute")
    said = measured.facts.get(("aligned", "actor"), {}).get("settings.force_on_policy_ratio", "false")
    if said != "false":
        faults.add(f"the actor says force_on_policy_ratio is {said}")
    return settle(
        "independence.recomputed",
        3,
        exercised=len(measured.tokens.arms["aligned"].rounds),
        faults=faults,
        passed="the recompute is not skipped: force_on_policy_ratio is off",
        vacuous="no round was run",
    )


def _first_forward(measured: Measured) -> Check:
    """The training forward was sealed once per policy version, in the round of that version."""
    faults, exercised = Faults(), 0
    for (arm, round_), ledger in measured.ledgers.items():
        if arm != "aligned":
            continue
        commits = [event for event in ledger if (event.event, event.side) == ("commit", "train")]
        exercised += len(commits)
        if len(commits) != 1:
            faults.add(f"round {round_} has {len(commits)} training forwards")
    for round_ in sorted(measured.tokens.arms["aligned"].rounds):
        if ("aligned", round_) not in measured.ledgers:
            faults.add(f"round {round_} has no training forward")
    return settle(
        "training.first-forward",
        4,
        exercised=exercised,
        faults=faults,
        passed="one training forward per policy version, committed to before the step that ends the version",
        vacuous="no training forward was recorded",
        basis="attested",
    )
