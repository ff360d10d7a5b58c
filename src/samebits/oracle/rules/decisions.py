"""Rule 8, what a DeepSeek-V4 decoder adds: routing, FP8 scales, selected keys, compressor windows.

Decisions are compared by digest: one per round, layer and kind, over every token that was computed.  A digest that is
the same on all sides shows that tie-breaks and scales were the same; the counts, that there were ties to break.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Final

from samebits.oracle.findings import Check, Faults, settle
from samebits.oracle.measured import Measured, Row
from samebits.recipe import Recipe
from samebits.recipe.model import Ds4Shape

SIDES: Final = ("rollout", "recompute", "train")
OVERLAPPING: Final = 4
"""The compression ratio of layers that have an indexer."""
SCALES_OF: Final = "_scale_inv"
"""Ends the name under which the scales of a quantised weight travel."""

Kind = tuple[str, int]
"""What, and in which layer."""


def routing(measured: Measured, recipe: Recipe) -> Check:
    """Experts and their weights, of each token in each layer."""
    shape = recipe.model.ds4
    if shape is None:
        return _not_applicable("contract.routing", "the dense family has no experts to route to")
    layers = range(len(shape.compress_ratios))
    faults, digests = _compared(
        measured, recipe, {(what, layer) for what in ("routes", "route_weights") for layer in layers}
    )
    rows = sum(row["rows"] for row in measured.decisions if row["what"] == "routes" and row["side"] == SIDES[0])
    ties = _count(measured, "router_tie")
    return settle(
        "contract.routing",
        8,
        exercised=rows if ties else 0,
        faults=faults,
        passed=f"{rows} routes and their weights are the same on all sides ({digests} digests), {ties} ties among them",
        vacuous=f"no router met a tie among {rows} routes: the tie rule was not needed",
    )


def fp8_scales(measured: Measured, recipe: Recipe) -> Check:
    """Activation scales of each token in each layer; weight scales travel with refits, which rule 7 compares."""
    shape = recipe.model.ds4
    if shape is None or not shape.fp8_block:
        if recipe.engine.quantization is not None:
            detail = (
                f"the recipe asks for quantization {recipe.engine.quantization!r}, of which the evidence records no "
                "scales"
            )
            return Check(name="contract.fp8-scales", rule=8, status="failed", exercised=0, detail=detail)
        return _not_applicable(
            "contract.fp8-scales", f"weights and activations are {recipe.model.dtype}; there are no scales"
        )
    wanted = {("scales.experts_down", layer) for layer in range(len(shape.compress_ratios))}
    wanted |= {(row["what"], row["layer"]) for row in measured.decisions if row["what"].startswith("scales.")}
    faults, digests = _compared(measured, recipe, wanted)
    moved = _moved_scales(measured)
    return settle(
        "contract.fp8-scales",
        8,
        exercised=digests if moved else 0,
        faults=faults,
        passed=f"{digests} digests of activation scales are the same on all sides; weight scales changed {moved} times "
        "over the refits, so a stale one would show",
        vacuous="no weight scale changed in any refit, or no activation scale was recorded: a stale one would not show",
    )


def family(measured: Measured, recipe: Recipe) -> list[Check]:
    """What the decoder's rules were put to; not applicable to a dense decoder."""
    shape = recipe.model.ds4
    if shape is None:
        return [_not_applicable(name, f"the dense family has no {lacks}") for name, (lacks, _) in _FAMILY.items()]
    return [check(name, measured, recipe, shape) for name, (_, check) in _FAMILY.items()]


def _selection(name: str, measured: Measured, recipe: Recipe, shape: Ds4Shape) -> Check:
    """Which entries each query attends to; exercised by contexts that have more of them than may be chosen."""
    wanted = {("selection", layer) for layer, ratio in enumerate(shape.compress_ratios) if ratio == OVERLAPPING}
    faults, digests = _compared(measured, recipe, wanted)
    past = _count(measured, "past_top_k")
    return settle(
        name,
        8,
        exercised=past,
        faults=faults,
        passed=f"selected keys are the same on all sides ({digests} digests); {past} queries had more than "
        f"{shape.index_topk} entries to choose from",
        vacuous=f"no context has more than {shape.index_topk} entries: nothing was selected",
    )


def _ties(name: str, measured: Measured, recipe: Recipe, shape: Ds4Shape) -> Check:
    del recipe, shape
    ties = _count(measured, "indexer_tie")
    return _exercised(name, ties, f"{ties} queries met a tie at the boundary of their selection")


def _dropless(name: str, measured: Measured, recipe: Recipe, shape: Ds4Shape) -> Check:
    """Every slot of every token came to its expert and back, whatever the expert's load."""
    del recipe
    faults = Faults()
    routed: dict[tuple[int, str, int], int] = {
        (row["round"], row["side"], row["layer"]): row["rows"] for row in measured.decisions if row["what"] == "routes"
    }
    slots: dict[tuple[int, str, int], int] = {
        (row["round"], row["side"], row["layer"]): row["value"] for row in measured.events if row["what"] == "slots"
    }
    for place in sorted(routed.keys() | slots.keys()):
        wanted = routed.get(place, 0) * shape.num_experts_per_tok
        if slots.get(place, 0) != wanted:
            faults.add(f"{_at(*place)}: {slots.get(place, 0)} of {wanted} slots were computed")
    most = max((row["value"] for row in measured.events if row["what"] == "tokens_per_expert"), default=0)
    return settle(
        name,
        8,
        exercised=most,
        faults=faults,
        passed=f"no slot was dropped, with up to {most} tokens for one expert",
        vacuous="no token was routed",
        basis="attested",
    )


def _chunks(name: str, measured: Measured, recipe: Recipe, shape: Ds4Shape) -> Check:
    del recipe, shape
    found = sum(measured.counters.get(("aligned", "chunks_inside_window"), []))
    return _exercised(name, found, f"{found} prefill chunks ended inside a compressor's window")


def _preempted(name: str, measured: Measured, recipe: Recipe, shape: Ds4Shape) -> Check:
    del recipe, shape
    found = sum(measured.counters.get(("aligned", "preemptions_inside_window"), []))
    return _exercised(name, found, f"{found} sequences were thrown out inside a compressor's window")


_FAMILY: Final[dict[str, tuple[str, Callable[[str, Measured, Recipe, Ds4Shape], Check]]]] = {
    "contract.selection": ("indexer", _selection),
    "exercised.indexer-ties": ("indexer", _ties),
    "exercised.dropless": ("experts", _dropless),
    "exercised.chunks-in-windows": ("compressor", _chunks),
    "exercised.preemptions-in-windows": ("compressor", _preempted),
}
"""Name to what a decoder without it lacks, and the check."""


def _compared(measured: Measured, recipe: Recipe, wanted: set[Kind]) -> tuple[Faults, int]:
    """Differences between the sides, kind by kind and round by round; how many digests were compared."""
    found: dict[tuple[int, Kind], dict[str, Row]] = {}
    faults, digests = Faults(), 0
    for row in measured.decisions:
        kind = (row["what"], row["layer"])
        if kind in wanted:
            sides = found.setdefault((row["round"], kind), {})
            if row["side"] in sides:
                faults.add(f"{_at(row['round'], row['side'], row['layer'])}: {row['what']} twice")
            sides[row["side"]] = row
    tokens = measured.trajectories["aligned"].computed
    for round_ in range(recipe.certification.refits + 1) if measured.decisions else ():
        for kind in sorted(wanted):
            sides = found.get((round_, kind), {})
            missing = [side for side in SIDES if side not in sides]
            what, layer = kind
            if missing:
                faults.add(f"{_at(round_, missing[0], layer)}: no {what} recorded")
                continue
            first = sides[SIDES[0]]
            for side in SIDES:
                if sides[side]["rows"] != tokens.get(round_, 0):
                    faults.add(
                        f"{_at(round_, side, layer)}: {what} of {sides[side]['rows']} tokens, "
                        f"not {tokens.get(round_, 0)}"
                    )
            differing = [side for side in SIDES[1:] if sides[side]["digest"] != first["digest"]]
            if differing:
                faults.add(f"{_at(round_, differing[0], layer)}: {what} differ from the rollout's")
            digests += 1
    return faults, digests


def _count(measured: Measured, what: str) -> int:
    """Of the rollout: each side counts the same tokens."""
    return sum(row["value"] for row in measured.events if row["what"] == what and row["side"] == SIDES[0])


def _moved_scales(measured: Measured) -> int:
    versions: dict[str, list[str]] = {}
    for row in sorted(measured.refits.get("aligned", []), key=lambda row: int(row["version"])):
        if row["tensor"].endswith(SCALES_OF):
            versions.setdefault(row["tensor"], []).append(row["sent"])
    return sum(_changes(digests) for digests in versions.values())


def _changes(values: Iterable[str]) -> int:
    found = list(values)
    return sum(before != after for before, after in itertools.pairwise(found))


def _at(round_: int, side: str, layer: int) -> str:
    return f"round {round_}, {side}, layer {layer}"


def _exercised(name: str, count: int, detail: str) -> Check:
    return Check(
        name=name,
        rule=8,
        status="passed" if count else "vacuous",
        exercised=count,
        detail=detail,
        basis="attested",
    )


def _not_applicable(name: str, reason: str) -> Check:
    return Check(name=name, rule=8, status="not_applicable", exercised=0, detail=reason)
