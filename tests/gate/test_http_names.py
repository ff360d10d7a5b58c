"""That the gate knows every name of the vLLM versions it was written for (tests/vectors/vllm)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samebits.errors import GateError
from samebits.gate.http import DIALECTS
from samebits.gate.http.routes import classify, known_refusal
from samebits.gate.request import RULES

VECTORS = Path(__file__).parents[1] / "vectors" / "vllm"
VERSIONS = {path.stem: json.loads(path.read_text()) for path in sorted(VECTORS.glob("*.json"))}
DERIVED = {"_all_stop_token_ids", "_bad_words_token_ids", "_eos_token_id"}
NEVER_PUBLIC = {
    "0.26.0": DERIVED,
    "0.32.0": DERIVED | {"_watermarking_skipped"},
    "0.33.0": DERIVED | {"_watermarking_skipped"},
}


def public(names):
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_sampling_parameter_has_a_rule(version):
    assert set(VERSIONS[version]["sampling_params"]) - set(RULES) == NEVER_PUBLIC[version]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_every_field_of_a_request_has_a_rule(version, dialect):
    assert public(VERSIONS[version]["requests"][dialect.name]) - set(dialect.fields) == set()


def test_no_dialect_knows_a_field_that_no_version_has():
    """Except for what OpenAI's protocol has and vLLM no longer, off as it is."""
    for dialect in DIALECTS.values():
        ever = set().union(*(names["requests"][dialect.name] for names in VERSIONS.values()))
        assert set(dialect.fields) - ever <= {"best_of"}


@pytest.mark.parametrize("route", sorted(set().union(*(names["routes"] for names in VERSIONS.values()))))
def test_every_route_is_known(route):
    """Passed or judged, or refused with a reason of its own."""
    method, _, template = route.partition(" ")
    path = template.replace("{response_id}", "resp_1")
    scope = {"type": "http", "method": method, "path": path}
    if known_refusal(path) is None:
        assert classify(scope) is DIALECTS.get(path)
    else:
        with pytest.raises(GateError) as raised:
            classify(scope)
        assert raised.value.next_step == known_refusal(path)
