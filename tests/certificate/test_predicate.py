from __future__ import annotations

from typing import Any

import pytest

from samebits.certificate import DERIVED, Predicate, Resource
from samebits.certificate import predicate as predicates
from samebits.errors import InvalidCertificate

SHA256 = "String should match pattern '^[0-9a-f]{64}$'"
ONE_VERDICT = "an object whose 'verdict' is one of passed, failed, vacuous, over_budget, refused"
TEXTS = "text or a list of texts, 1 to 4096 characters each and no control characters"
REAL_TIME = "an RFC 3339 time in UTC that exists, for instance 2026-01-31T23:59:59Z"


def put(target: Any, path: list[Any], value: Any) -> None:
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value


def test_round_trip(predicate: dict[str, Any]) -> None:
    parsed = predicates.parse(predicate)
    assert parsed.to_dict() == predicate
    assert predicates.parse(parsed.to_dict()) == parsed
    assert parsed.run.finishedOn == "2026-11-30T12:02:59.123456Z"
    assert parsed.configuration[0].annotations == {}
    assert parsed.configuration[1].uri == ""


def test_reproduces_is_null_or_names_a_certificate(predicate: dict[str, Any]) -> None:
    predicate["reproduces"] = {"certificateSha256": "a" * 64, "keyid": "b" * 64}
    assert predicates.parse(predicate).to_dict() == predicate


def test_findings_are_opaque_but_for_the_verdict(predicate: dict[str, Any]) -> None:
    for verdict in ("passed", "failed", "vacuous", "refused"):
        predicate["findings"] = {"verdict": verdict, "anything": [{"deep": None}]}
        assert predicates.parse(predicate).findings == predicate["findings"]


def test_what_is_derived() -> None:
    assert DERIVED == ("findings",)
    assert set(Predicate.model_fields) - set(DERIVED) == {
        "row",
        "recipe",
        "kit",
        "configuration",
        "environment",
        "run",
        "seeds",
        "reproduces",
        "limitations",
    }


@pytest.mark.parametrize("key", sorted(Predicate.model_fields))
def test_every_field_is_required(predicate: dict[str, Any], key: str) -> None:
    del predicate[key]
    with pytest.raises(InvalidCertificate) as caught:
        predicates.parse(predicate)
    assert (caught.value.field, caught.value.found) == (f"predicate: {key}", "nothing")


@pytest.mark.parametrize(
    ("path", "accepted"),
    [
        ([], "configuration, environment, findings, kit, limitations, recipe, reproduces, row, run, seeds"),
        (["row"], "id, sha256"),
        (["recipe"], "id, sha256"),
        (["kit"], "sha256, version"),
        (["run"], "finishedOn, id, producer, resumed, startedOn"),
        (["reproduces"], "certificateSha256, keyid"),
    ],
)
def test_every_level_is_closed(predicate: dict[str, Any], path: list[Any], accepted: str) -> None:
    predicate["reproduces"] = {"certificateSha256": "a" * 64, "keyid": "b" * 64}
    put(predicate, [*path, "extra"], "x")
    with pytest.raises(InvalidCertificate) as caught:
        predicates.parse(predicate)
    assert caught.value.to_dict() == {
        "error": "invalid",
        "field": "predicate: " + ".".join([*path, "extra"]),
        "found": "an unknown key",
        "accepted": accepted,
        "next_step": "Do not rely on this certificate; ask its signer for a sound one.",
    }


@pytest.mark.parametrize(
    ("path", "value", "field", "accepted"),
    [
        (["row", "sha256"], "A" * 64, "row.sha256", SHA256),
        (["row", "sha256"], "1" * 64 + "\n", "row.sha256", SHA256),
        (["row", "sha256"], 1, "row.sha256", "a valid string"),
        (["kit", "version"], "", "kit.version", None),
        (["recipe", "id"], "a b", "recipe.id", None),
        (["run", "resumed"], "false", "run.resumed", "a valid boolean"),
        (["run", "resumed"], 0, "run.resumed", "a valid boolean"),
        (["run", "startedOn"], "2026-11-30T12:00:00+00:00", "run.startedOn", None),
        (["run", "startedOn"], "2026-11-30", "run.startedOn", None),
        (["run", "startedOn"], "2026-02-30T12:00:00Z", "run.startedOn", REAL_TIME),
        (["run", "startedOn"], "٢٠٢٦-11-30T12:00:00Z", "run.startedOn", None),
        (["run", "finishedOn"], "2026-11-30T11:59:59Z", "run", "a finishedOn that is not before startedOn"),
        (["run", "producer"], "esc\x1b[31m", "run.producer", None),
        (["limitations", 0], "", "limitations[0]", None),
        (["limitations"], "none", "limitations", "a valid list"),
        (["seeds", "workload"], 7, "seeds.workload", "a valid string"),
        (["configuration", 0, "digest"], {}, "configuration[0].digest", None),
        (
            ["configuration", 0, "digest"],
            {"md5": "0" * 32},
            "configuration[0].digest",
            "digests named sha256, sha512, gitCommit, gitTree",
        ),
        (
            ["configuration", 0, "digest"],
            {"gitCommit": "0" * 7},
            "configuration[0].digest",
            "lower-case hex, for gitCommit 40 or 64 digits",
        ),
        (
            ["configuration", 0, "digest"],
            {"sha256": "G" * 64},
            "configuration[0].digest",
            "lower-case hex, for sha256 64 digits",
        ),
        (["configuration", 0, "uri"], None, "configuration[0].uri", "a valid string"),
        (["configuration", 0, "downloadLocation"], "x", "configuration[0].downloadLocation", None),
        (
            ["environment", "hostname"],
            "x",
            "environment",
            "no names of hosts or users, no serial numbers (key 'hostname')",
        ),
        (
            ["environment", "hostName"],
            "x",
            "environment",
            "no names of hosts or users, no serial numbers (key 'hostName')",
        ),
        (
            ["environment", "gpuUuid"],
            "x",
            "environment",
            "no names of hosts or users, no serial numbers (key 'gpuUuid')",
        ),
        (
            ["environment", "VLLM_HOST_IP"],
            "x",
            "environment",
            "no names of hosts or users, no serial numbers (key 'VLLM_HOST_IP')",
        ),
        (
            ["environment", "gpus"],
            ["GPU-0a1b2c3d-0a1b-2c3d-0a1b-2c3d0a1b2c3d"],
            "environment",
            "no GPU UUIDs (key 'gpus')",
        ),
        (["environment", "threads"], 2, "environment.threads", TEXTS),
        (["environment", "threads"], [2], "environment.threads", TEXTS),
        (["environment", "threads"], "", "environment.threads", TEXTS),
        (["environment", "threads"], ["a\n"], "environment.threads", TEXTS),
        (["environment", "threads"], None, "environment.threads", TEXTS),
        (["findings"], {}, "findings", ONE_VERDICT),
        (
            ["findings"],
            {"verdict": "PASSED"},
            "findings",
            ONE_VERDICT,
        ),
        (["findings"], [], "findings", "a valid dictionary"),
        (["reproduces"], {"keyid": "b" * 64}, "reproduces.certificateSha256", "a value"),
    ],
)
def test_values_are_checked(
    predicate: dict[str, Any], path: list[Any], value: Any, field: str, accepted: str | None
) -> None:
    put(predicate, path, value)
    with pytest.raises(InvalidCertificate) as caught:
        predicates.parse(predicate)
    assert caught.value.field == f"predicate: {field}"
    if accepted is not None:
        assert caught.value.accepted == accepted


def test_ordinary_environments_are_not_private(predicate: dict[str, Any]) -> None:
    predicate["environment"] = {"gpus": ["4 × NVIDIA H200"], "CUDA_HOME": "set", "ghostWriter": "x", "variables": []}
    assert predicates.parse(predicate).to_dict() == predicate


def test_models_are_frozen(predicate: dict[str, Any]) -> None:
    parsed = predicates.parse(predicate)
    with pytest.raises(ValueError, match="frozen"):
        parsed.limitations = []
    assert Resource(name="x", digest={"sha256": "0" * 64}).model_dump(exclude_unset=True) == {
        "name": "x",
        "digest": {"sha256": "0" * 64},
    }
