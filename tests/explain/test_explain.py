"""Runs with a fault in one op of one layer: the explanation names that layer and that op."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STORY = Path(__file__).with_name("story.py")


def story(folder: Path, fault: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(STORY), str(folder), fault], capture_output=True, text=True, check=False, timeout=900
    )
    logs = "".join(path.read_text() for path in folder.glob("*.log"))
    assert done.returncode == 0, done.stderr + logs
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["explanation"] is not None, logs
    return said


@pytest.fixture(scope="module")
def projected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return story(tmp_path_factory.mktemp("projected"), "output-projection")


def test_a_fault_in_one_projection_is_named(projected: dict[str, Any]) -> None:
    assert projected["run"]["verdict"] == "failed"
    explanation = projected["explanation"]
    token = explanation["token"]
    assert (token["left"], token["right"]) == ("rollout", "recompute")
    assert token["bits"]["rollout"] == token["bits"]["prefill"] != token["bits"]["recompute"]
    assert explanation["asRecorded"] == {"rollout": True, "recompute": True, "tokens": True}
    birth = explanation["birth"]
    assert birth["first"]["op"] == "model.layers.1.self_attn.o_proj"
    assert birth["first"]["layer"] == 1
    assert birth["position"] == token["position"] - 1
    before = [one for one in birth["ops"] if one["layer"] == 0]
    assert before
    assert all(one["equal"] for one in before)
    assert [one["op"] for one in birth["ops"]][-1] == "logprob"
    assert birth["ops"][-1]["equal"] is False


def test_a_row_invariant_op_gives_its_side_s_bits_among_any_number_of_rows(projected: dict[str, Any]) -> None:
    explanation = projected["explanation"]
    like = {(one["how"], one["like"]) for one in explanation["conditions"]}
    assert like == {("rollout's op alone", "left"), ("recompute's op alone", "right")}
    assert [one["rows"] for one in explanation["conditions"][:9]] == [1, 2, 8, 32, 64, 128, 256, 257, 512]
    assert explanation["flips"] == []


def test_an_attention_that_reads_otherwise_is_named_itself(tmp_path: Path) -> None:
    explanation = story(tmp_path, "attention")["explanation"]
    assert explanation["birth"]["first"]["op"] == "model.layers.0.self_attn.attn"
    hows = [one["how"] for one in explanation["conditions"]]
    assert hows == [*(f"prefill with {count} others" for count in (0, 1, 2, 4, 5)),
                    *(f"rollout with {count} others" for count in (0, 1, 2, 4, 5))]  # fmt: skip
    assert {one["like"] for one in explanation["conditions"]} == {"left"}


def test_a_mixture_of_experts_is_walked_back_too(tmp_path: Path) -> None:
    explanation = story(tmp_path, "experts")["explanation"]
    first = explanation["birth"]["first"]
    assert first["op"] == f"model.layers.{first['layer']}.combine"
    assert explanation["asRecorded"] == {"rollout": True, "recompute": True, "tokens": True}
    assert {one["like"] for one in explanation["conditions"]} == {"left", "right"}
