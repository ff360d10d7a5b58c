from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from samebits.certificate import (
    PrivateKey,
    Subject,
    check_subjects,
    load_public,
    open_certificate,
    read_unverified,
    sign,
    sign_certificate,
    strict_json,
    subjects_of,
    write_statement,
)
from samebits.certificate import predicate as predicates
from samebits.errors import InputError, InvalidCertificate
from samebits.hashing import sha256_bytes

VECTORS = Path(__file__).parents[1] / "vectors" / "certificate"


def test_sign_and_open(payload: bytes, statement: dict[str, Any], key: PrivateKey) -> None:
    opened = open_certificate(sign_certificate(payload, key), key.public)
    assert opened.payload == payload
    assert opened.sha256 == sha256_bytes(payload)
    assert opened.keyid == key.public.fingerprint
    assert opened.statement.to_dict() == statement
    assert opened.predicate.to_dict() == statement["predicate"]


def test_write_statement(payload: bytes, predicate: dict[str, Any]) -> None:
    subjects = (Subject(name="tokens.parquet", sha256="8" * 64), Subject(name="recipe.toml", sha256="7" * 64))
    assert write_statement(subjects, predicates.parse(predicate)) == payload


def test_a_float_in_the_findings_is_never_written(predicate: dict[str, Any]) -> None:
    predicate["findings"]["overhead"] = 1.02
    with pytest.raises(TypeError, match=r"^predicate\.findings\.overhead: float has no place"):
        write_statement((Subject(name="x", sha256="8" * 64),), predicates.parse(predicate))


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (["predicateType"], "urn:samebits:certificate:v2", "statement: predicateType"),
        (["predicate", "row", "sha256"], "x", "statement: predicate: row.sha256"),
        (["predicate", "findings", "verdict"], "sound", "statement: predicate: findings"),
    ],
)
def test_what_would_not_open_is_not_signed(
    statement: dict[str, Any], key: PrivateKey, path: list[str], value: str, field: str
) -> None:
    target = statement
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    data = strict_json.dumps(statement)
    with pytest.raises(InvalidCertificate) as caught:
        sign_certificate(data, key)
    assert caught.value.field == field
    # Somebody who signs it nevertheless gains nothing.
    with pytest.raises(InvalidCertificate) as caught:
        open_certificate(sign(data, key), key.public)
    assert caught.value.field == f"certificate: {field}"


def test_the_signature_comes_before_the_content(bundle: dict[str, Any], key: PrivateKey) -> None:
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(b"not JSON").decode()
    with pytest.raises(InvalidCertificate) as caught:
        open_certificate(strict_json.dumps(bundle), key.public)
    assert caught.value.found == "a signature that does not fit"


def test_read_unverified(tmp_path: Path, payload: bytes, statement: dict[str, Any], key: PrivateKey) -> None:
    signed, unsigned = tmp_path / "x.sigstore.json", tmp_path / "x.statement.json"
    signed.write_bytes(sign(payload, key))
    unsigned.write_bytes(payload)
    assert read_unverified(signed).to_dict() == read_unverified(unsigned).to_dict() == statement
    unsigned.write_bytes(payload[:-1])
    with pytest.raises(InvalidCertificate, match=r"^x\.statement\.json: character \d+: found not JSON"):
        read_unverified(unsigned)
    with pytest.raises(InputError, match=r"accepted: NAME\.sigstore\.json or NAME\.statement\.json\."):
        read_unverified(tmp_path / "x.json")


@pytest.mark.parametrize("name", ["p256", "ed25519"])
def test_published_certificates_stay_readable(name: str, statement: dict[str, Any]) -> None:
    key = load_public(VECTORS / f"{name}.pub.pem")
    opened = open_certificate((VECTORS / f"{name}.sigstore.json").read_bytes(), key)
    assert opened.sha256 == "0f0e823fc5e8b1c3e6760d764c37344b769ec404aa7da33eb565a27efc51bfb1"
    assert opened.statement.to_dict() == statement


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    folder = tmp_path / "x.evidence"
    folder.mkdir()
    (folder / "recipe.toml").write_text("recipe")
    (folder / "tokens.parquet").write_text("tokens")
    return folder


def test_subjects_of_a_folder(evidence: Path) -> None:
    subjects = subjects_of(evidence.iterdir())
    assert sorted((subject.name, subject.sha256) for subject in subjects) == [
        ("recipe.toml", sha256_bytes(b"recipe")),
        ("tokens.parquet", sha256_bytes(b"tokens")),
    ]
    check_subjects(subjects, evidence)


def test_evidence_is_exactly_what_was_signed(evidence: Path) -> None:
    subjects = subjects_of(evidence.iterdir())

    def refusal() -> tuple[str, str, str]:
        with pytest.raises(InvalidCertificate) as caught:
            check_subjects(subjects, evidence)
        return caught.value.field, caught.value.found, caught.value.accepted

    (evidence / "probes.parquet").write_text("nobody signed this")
    assert refusal() == (
        str(evidence / "probes.parquet"),
        "a file that the statement does not name",
        "recipe.toml, tokens.parquet",
    )
    (evidence / "probes.parquet").unlink()

    tokens = evidence / "tokens.parquet"
    tokens.write_text("tokenS")
    assert refusal() == (
        str(tokens),
        f"sha256 {sha256_bytes(b'tokenS')}",
        f"sha256 {sha256_bytes(b'tokens')}, as in the statement",
    )
    tokens.rename(evidence.parent / "elsewhere")
    assert refusal() == (str(tokens), "no such file or directory", "a regular file")
    (evidence.parent / "elsewhere").write_text("tokens")
    tokens.symlink_to(evidence.parent / "elsewhere")
    assert refusal() == (str(tokens), "a symbolic link", "a regular file")
    tokens.unlink()
    tokens.mkdir()
    assert refusal() == (str(tokens), "a folder", "a regular file")


def test_an_evidence_folder_that_is_a_link_is_refused(evidence: Path) -> None:
    subjects = subjects_of(evidence.iterdir())
    evidence.rename(evidence.parent / "real")
    evidence.symlink_to(evidence.parent / "real")
    with pytest.raises(InvalidCertificate) as caught:
        check_subjects(subjects, evidence)
    assert (caught.value.field, caught.value.found) == (str(evidence), "a symbolic link")
