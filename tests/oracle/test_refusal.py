"""Evidence of a refusal, right and wrong in one thing each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from samebits import recipe
from samebits.hashing import sha256_bytes
from samebits.oracle import EvidenceWriter, Findings, fact_rows, judge

ASKED, _ = recipe.load("refused-mamba2-cpu")
MESSAGE = (
    "RuntimeError: VLLM batch_invariant mode is not supported for MAMBA2_ATTN. "
    "(vllm/v1/attention/selector.py:229 in _cached_get_mamba_attn_backend)"
)
ROW = {
    "kind": "construct",
    "set": json.dumps({"batch_invariant": True}),
    "refused": True,
    "by": "vllm",
    "field": "construction",
    "message": MESSAGE,
}
FACTS = {
    "config_sha256": sha256_bytes(recipe.config_bytes(ASKED.model)),
    "without": {"stage": "none", "message": ""},
}


def judged(folder: Path, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Findings:
    evidence = folder / "certificate.evidence"
    for path in (evidence, folder / "parts"):
        path.mkdir()
    writer = EvidenceWriter(evidence, folder / "parts")
    writer.part("construct", {"refusals": rows, "facts": fact_rows("aligned", "engine", facts)})
    writer.assemble()
    return judge(evidence, ASKED)


def test_a_refusal_by_the_engine_is_refused_and_says_why(tmp_path):
    found = judged(tmp_path, [ROW], FACTS)
    assert found.verdict == "refused"
    assert found.reasons == [f"refusal.raised: refused: the engine itself raised: vllm, construction: {MESSAGE}"]
    said = found.to_dict()
    assert [(check["name"], check["status"]) for check in said["checks"]] == [
        ("refusal.raised", "passed"),
        ("refusal.model", "passed"),
        ("refusal.by-the-flag", "passed"),
    ]
    assert (said["exactness"]["verdict"], said["exactness"]["compared"], said["oracles"]) == ("vacuous", 0, [])
    assert said["exclusions"][0]["by"] == "vllm"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"refused": False, "field": "none", "message": ""},
            "refusal.raised: failed: the engine did not refuse: a token came out",
        ),
        ({"by": "gate"}, "refusal.raised: failed: refused by 'gate', not by the engine"),
        (
            {"message": "RuntimeError: no space"},
            "refusal.raised: failed: refused for another reason: RuntimeError: no space",
        ),
        (
            {"set": '{"batch_invariant": false}'},
            (
                'refusal.raised: failed: construct {"batch_invariant": false} was tried, not construct '
                '{"batch_invariant": true}'
            ),
        ),
        (
            {"kind": "engine"},
            (
                'refusal.raised: failed: engine {"batch_invariant": true} was tried, not construct '
                '{"batch_invariant": true}'
            ),
        ),
    ],
)
def test_anything_else_is_failed(tmp_path, change, reason):
    found = judged(tmp_path, [{**ROW, **change}], FACTS)
    assert (found.verdict, found.reasons) == ("failed", [reason])


def test_one_attempt_neither_none_nor_two(tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "two").mkdir()
    assert judged(tmp_path / "none", [], FACTS).reasons == ["refusal.raised: failed: 0 refusals are recorded, not one"]
    assert judged(tmp_path / "two", [ROW, ROW], FACTS).reasons == [
        "refusal.raised: failed: 2 refusals are recorded, not one"
    ]


def test_another_configuration_is_not_the_recipe_s(tmp_path):
    found = judged(tmp_path, [ROW], {**FACTS, "config_sha256": "0" * 64})
    assert found.verdict == "failed"
    assert found.reasons[0].startswith(
        f"refusal.model: failed: the engine read a config.json with sha256 {'0' * 64}, not "
    )


def test_what_is_said_without_the_flag_too_is_not_the_flag_s_doing(tmp_path):
    found = judged(tmp_path, [ROW], {**FACTS, "without": {"stage": "construction", "message": MESSAGE}})
    assert (found.verdict, found.reasons) == (
        "failed",
        [f"refusal.by-the-flag: failed: without the flag it says the same: {MESSAGE}"],
    )


def test_an_engine_that_was_never_built_without_the_flag_leaves_it_open(tmp_path):
    found = judged(tmp_path, [ROW], {"config_sha256": FACTS["config_sha256"]})
    assert (found.verdict, found.reasons) == (
        "vacuous",
        ["refusal.by-the-flag: vacuous: the engine was not built without the flag"],
    )
