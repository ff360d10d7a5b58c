"""One sound certificate, from which each test changes one thing and signs again where it must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from samebits.certificate import PrivateKey, sign, strict_json


@pytest.fixture(scope="session")
def key() -> PrivateKey:
    return PrivateKey(ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture(scope="session")
def other_key() -> PrivateKey:
    return PrivateKey(ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture(scope="session")
def ed25519_key() -> PrivateKey:
    return PrivateKey(Ed25519PrivateKey.generate())


@pytest.fixture
def predicate() -> dict[str, Any]:
    return {
        "row": {"id": "cpu", "sha256": "1" * 64},
        "recipe": {"id": "dense-tiny", "sha256": "2" * 64},
        "kit": {"version": "0.1.0", "sha256": "3" * 64},
        "configuration": [
            {"name": "torch", "digest": {"sha256": "4" * 64}, "uri": "pkg:pypi/torch@2.13.0"},
            {
                "name": "some/repository",
                "digest": {"gitCommit": "5" * 40, "gitTree": "6" * 40},
                "annotations": {"a": "b"},
            },
        ],
        "environment": {"python": "3.11.7", "cpuFlags": ["avx2", "avx512_bf16"]},
        "run": {
            "id": "20261130T120000Z-cpu",
            "startedOn": "2026-11-30T12:00:00Z",
            "finishedOn": "2026-11-30T12:02:59.123456Z",
            "producer": "samebits 0.1.0",
            "resumed": False,
        },
        "seeds": {"workload": "18446744073709551615"},
        "reproduces": None,
        "limitations": ["One machine, one run."],
        "findings": {"verdict": "passed", "compared": 2048, "mismatches": 0},
    }


@pytest.fixture
def statement(predicate: dict[str, Any]) -> dict[str, Any]:
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": "recipe.toml", "digest": {"sha256": "7" * 64}},
            {"name": "tokens.parquet", "digest": {"sha256": "8" * 64}},
        ],
        "predicateType": "urn:samebits:certificate:v1",
        "predicate": predicate,
    }


@pytest.fixture
def payload(statement: dict[str, Any]) -> bytes:
    return strict_json.dumps(statement)


@pytest.fixture
def bundle(payload: bytes, key: PrivateKey) -> dict[str, Any]:
    return strict_json.loads(sign(payload, key), source="bundle", limit=10**6)


@pytest.fixture
def private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without keys."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path
