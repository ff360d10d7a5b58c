"""Routing, scales, selection and windows: a world with a DeepSeek-V4 decoder, and one fault at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simulator import Simulator

CHECKS = {
    "contract.routing",
    "contract.fp8-scales",
    "contract.selection",
    "exercised.indexer-ties",
    "exercised.dropless",
    "exercised.chunks-in-windows",
    "exercised.preemptions-in-windows",
}


@pytest.fixture
def world() -> Simulator:
    return Simulator.with_experts()


def judged(world: Simulator, tmp_path: Any) -> dict[str, tuple[str, int, str]]:
    return {
        check.name: (check.status, check.exercised, check.detail) for check in world.judge(tmp_path / "evidence").checks
    }


def test_the_clean_world_passes(world: Simulator, tmp_path: Any) -> None:
    found = judged(world, tmp_path)
    assert {name: text for name, text in found.items() if text[0] not in {"passed", "not_applicable"}} == {}
    rows = 11 * 3 * 72
    assert {name: found[name] for name in CHECKS} == {
        "contract.routing": (
            "passed",
            rows,
            f"{rows} routes and their weights are the same on all sides (66 digests), 33 ties among them",
        ),
        "contract.fp8-scales": (
            "passed",
            66,
            (
                "66 digests of activation scales are the same on all sides; weight scales changed 2 times over the "
                "refits, so a stale one would show"
            ),
        ),
        "contract.selection": (
            "passed",
            165,
            "selected keys are the same on all sides (11 digests); 165 queries had more than 4 entries to choose from",
        ),
        "exercised.indexer-ties": ("passed", 66, "66 queries met a tie at the boundary of their selection"),
        "exercised.dropless": ("passed", 29, "no slot was dropped, with up to 29 tokens for one expert"),
        "exercised.chunks-in-windows": ("passed", 11, "11 prefill chunks ended inside a compressor's window"),
        "exercised.preemptions-in-windows": (
            "passed",
            11,
            "11 sequences were thrown out inside a compressor's window",
        ),
    }


def event(world: Simulator, what: str, value: int, **where: Any) -> None:
    for row in world.rows("events", what=what, **where):
        row["value"] = value


def differ(what: str, side: str, layer: int) -> Callable[[Simulator], None]:
    def change(world: Simulator) -> None:
        row = world.row("decisions", arm="aligned", round=3, side=side, layer=layer, what=what)
        row["digest"] = "0" * 64

    return change


def set_counter(counter: str) -> Callable[[Simulator], None]:
    def change(world: Simulator) -> None:
        for row in world.rows("counters", counter=counter):
            row["value"] = 0

    return change


def shorten(world: Simulator) -> None:
    world.row("decisions", arm="aligned", round=3, side="recompute", layer=1, what="routes")["rows"] -= 1


def drop_a_slot(world: Simulator) -> None:
    world.row("events", arm="aligned", round=5, side="train", layer=1, what="slots")["value"] -= 1


def stale_scales(world: Simulator) -> None:
    first = world.row("refits", arm="aligned", version=0, tensor="layer.0_scale_inv")
    for row in world.rows("refits", arm="aligned", tensor="layer.0_scale_inv"):
        row |= {name: first[name] for name in ("sent", "arrived", "loaded")}


def twice(world: Simulator) -> None:
    row = world.row("decisions", arm="aligned", round=3, side="train", layer=0, what="routes")
    world.tables["decisions"].append(dict(row))


def nothing_decided(world: Simulator) -> None:
    for table in ("decisions", "events"):
        world.tables[table].clear()


FAULTS: list[tuple[str, Callable[[Simulator], None], dict[str, tuple[str, str]]]] = [
    (
        "another expert in the recompute",
        differ("routes", "recompute", 2),
        {"contract.routing": ("failed", "round 3, recompute, layer 2: routes differ from the rollout's")},
    ),
    (
        "another weight of an expert in the training forward",
        differ("route_weights", "train", 0),
        {"contract.routing": ("failed", "round 3, train, layer 0: route_weights differ from the rollout's")},
    ),
    (
        "a scale of the engine's own",
        differ("scales.attention", "rollout", 1),
        {
            "contract.fp8-scales": (
                "failed",
                "round 3, recompute, layer 1: scales.attention differ from the rollout's",
            )
        },
    ),
    (
        "another key selected",
        differ("selection", "train", 1),
        {"contract.selection": ("failed", "round 3, train, layer 1: selection differ from the rollout's")},
    ),
    (
        "a round without routes",
        lambda world: world.remove("decisions", arm="aligned", round=7, side="train", layer=0, what="routes"),
        {
            "contract.routing": ("failed", "round 7, train, layer 0: no routes recorded"),
            "exercised.dropless": ("failed", "round 7, train, layer 0: 216 of 0 slots were computed"),
        },
    ),
    (
        "a token without routes",
        shorten,
        {
            "contract.routing": ("failed", "round 3, recompute, layer 1: routes of 71 tokens, not 72"),
            "exercised.dropless": ("failed", "round 3, recompute, layer 1: 216 of 213 slots were computed"),
        },
    ),
    (
        "routes recorded twice",
        twice,
        {"contract.routing": ("failed", "round 3, train, layer 0: routes twice")},
    ),
    (
        "a dropped slot",
        drop_a_slot,
        {"exercised.dropless": ("failed", "round 5, train, layer 1: 215 of 216 slots were computed")},
    ),
    (
        "no router tie",
        lambda world: event(world, "router_tie", 0),
        {
            "contract.routing": (
                "vacuous",
                "no router met a tie among 2376 routes: the tie rule was not needed",
            )
        },
    ),
    (
        "no context past the top-k",
        lambda world: event(world, "past_top_k", 0),
        {"contract.selection": ("vacuous", "no context has more than 4 entries: nothing was selected")},
    ),
    (
        "no indexer tie",
        lambda world: event(world, "indexer_tie", 0),
        {"exercised.indexer-ties": ("vacuous", "0 queries met a tie at the boundary of their selection")},
    ),
    (
        "scales that no refit changed",
        stale_scales,
        {
            "contract.fp8-scales": (
                "vacuous",
                "no weight scale changed in any refit, or no activation scale was recorded: a stale one would not show",
            )
        },
    ),
    (
        "no chunk inside a window",
        set_counter("chunks_inside_window"),
        {"exercised.chunks-in-windows": ("vacuous", "0 prefill chunks ended inside a compressor's window")},
    ),
    (
        "no preemption inside a window",
        set_counter("preemptions_inside_window"),
        {"exercised.preemptions-in-windows": ("vacuous", "0 sequences were thrown out inside a compressor's window")},
    ),
    (
        "nothing recorded",
        nothing_decided,
        {
            "contract.routing": ("vacuous", "no router met a tie among 0 routes: the tie rule was not needed"),
            "contract.fp8-scales": (
                "vacuous",
                "no weight scale changed in any refit, or no activation scale was recorded: a stale one would not show",
            ),
            "contract.selection": ("vacuous", "no context has more than 4 entries: nothing was selected"),
            "exercised.indexer-ties": ("vacuous", "0 queries met a tie at the boundary of their selection"),
            "exercised.dropless": ("vacuous", "no token was routed"),
        },
    ),
]


@pytest.mark.parametrize(("change", "broken"), [one[1:] for one in FAULTS], ids=[one[0] for one in FAULTS])
def test_one_fault(
    world: Simulator,
    tmp_path: Any,
    change: Callable[[Simulator], None],
    broken: dict[str, tuple[str, str]],
) -> None:
    change(world)
    found = judged(world, tmp_path)
    wrong = {name: (status, text) for name, (status, _, text) in found.items() if status in {"failed", "vacuous"}}
    assert wrong == broken


def test_every_check_can_fail() -> None:
    assert {name for _, _, broken in FAULTS for name in broken} == CHECKS


def test_without_fp8_there_are_no_scales(world: Simulator, tmp_path: Any) -> None:
    world.replace("fp8_block = 32\n", "")
    world.replace('quantization = "fp8"', "")
    found = judged(world, tmp_path)
    assert found["contract.fp8-scales"] == (
        "not_applicable",
        0,
        "weights and activations are bfloat16; there are no scales",
    )
