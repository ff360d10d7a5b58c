"""Verifiers that we did not write: each accepts a good certificate and refuses the three classic forgeries."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google.protobuf.json_format
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from in_toto_attestation.v1 import resource_descriptor, resource_descriptor_pb2, statement_pb2
from in_toto_attestation.v1 import statement as in_toto
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from samebits.certificate import PrivateKey, sign, strict_json
from samebits.certificate import statement as statements

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "verify-with-openssl.sh"
SIGSTORE_JS = Path(__file__).parent / "sigstore_js"


def missing(*programs: str) -> str:
    return ", ".join(program for program in programs if shutil.which(program) is None)


needs_openssl = pytest.mark.skipif(
    bool(missing("openssl", "jq", "base64")), reason=f"not on the PATH: {missing('openssl', 'jq', 'base64')}"
)
needs_npm = pytest.mark.skipif(bool(missing("node", "npm")), reason=f"not on the PATH: {missing('node', 'npm')}")


@dataclass(frozen=True, kw_only=True)
class Files:
    certificate: Path
    key: Path
    payload: bytes


def flip_a_payload_byte(bundle: dict[str, Any]) -> None:
    payload = bytearray(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    payload[len(payload) // 2] ^= 1
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()


def swap_the_payload_type(bundle: dict[str, Any]) -> None:
    bundle["dsseEnvelope"]["payloadType"] = "application/json"


FORGERIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a flipped payload byte": flip_a_payload_byte,
    "a swapped payload type": swap_the_payload_type,
}


@pytest.fixture(params=["p256", "ed25519"])
def signer(request: pytest.FixtureRequest, key: PrivateKey, ed25519_key: PrivateKey) -> PrivateKey:
    return key if request.param == "p256" else ed25519_key


@pytest.fixture
def good(tmp_path: Path, payload: bytes, signer: PrivateKey) -> Files:
    (tmp_path / "x.sigstore.json").write_bytes(sign(payload, signer))
    (tmp_path / "key.pub.pem").write_bytes(signer.public.pem())
    return Files(certificate=tmp_path / "x.sigstore.json", key=tmp_path / "key.pub.pem", payload=payload)


@pytest.fixture(params=[*FORGERIES, "a wrong key"])
def forged(request: pytest.FixtureRequest, good: Files, other_key: PrivateKey) -> Files:
    if request.param == "a wrong key":
        good.key.write_bytes(other_key.public.pem())
    else:
        bundle = json.loads(good.certificate.read_bytes())
        FORGERIES[request.param](bundle)
        good.certificate.write_bytes(strict_json.dumps(bundle))
    return good


# openssl and jq: the very script that the documentation gives to a stranger.


def openssl(*arguments: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([SCRIPT, *arguments], capture_output=True, check=False)


@needs_openssl
def test_openssl_accepts(good: Files) -> None:
    result = openssl(good.certificate, good.key)
    assert (result.returncode, result.stdout) == (0, good.payload), result.stderr


@needs_openssl
def test_openssl_refuses(forged: Files) -> None:
    result = openssl(forged.certificate, forged.key)
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.endswith(b"NOT VALID: the signature is not of this key\n")


@needs_openssl
def test_openssl_refuses_a_signed_document_of_another_type(tmp_path: Path, key: PrivateKey) -> None:
    signature = key.sign(b"DSSEv1 16 application/json 2 {}")
    bundle = json.loads(sign(b"{}", key))
    bundle["dsseEnvelope"]["payloadType"] = "application/json"
    bundle["dsseEnvelope"]["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    (tmp_path / "x.sigstore.json").write_text(json.dumps(bundle))
    (tmp_path / "key.pub.pem").write_bytes(key.public.pem())
    result = openssl(tmp_path / "x.sigstore.json", tmp_path / "key.pub.pem")
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.endswith(b"NOT VALID: signed, but not an in-toto statement\n")


@needs_openssl
def test_openssl_compares_the_evidence(tmp_path: Path, key: PrivateKey, predicate: dict[str, Any]) -> None:
    evidence = tmp_path / "x.evidence"
    evidence.mkdir()
    (evidence / "tokens.parquet").write_bytes(b"tokens")
    digest = subprocess.run(
        ["openssl", "dgst", "-sha256", "-r", evidence / "tokens.parquet"], capture_output=True, text=True, check=True
    ).stdout[:64]
    payload = statements.write([statements.Subject(name="tokens.parquet", sha256=digest)], predicate)
    (tmp_path / "x.sigstore.json").write_bytes(sign(payload, key))
    (tmp_path / "key.pub.pem").write_bytes(key.public.pem())
    arguments = (tmp_path / "x.sigstore.json", tmp_path / "key.pub.pem", evidence)
    result = openssl(*arguments)
    assert (result.returncode, result.stdout) == (0, payload), result.stderr
    (evidence / "tokens.parquet").write_bytes(b"tokenS")
    result = openssl(*arguments)
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.endswith(b"NOT VALID: the evidence is not what was signed\n")


@needs_openssl
@pytest.mark.parametrize("content", ["", "x", "{}", "[]", '{"mediaType": "x"}'])
def test_openssl_script_refuses_what_is_no_bundle(tmp_path: Path, key: PrivateKey, content: str) -> None:
    (tmp_path / "x.sigstore.json").write_text(content)
    (tmp_path / "key.pub.pem").write_bytes(key.public.pem())
    result = openssl(tmp_path / "x.sigstore.json", tmp_path / "key.pub.pem")
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.endswith(b"NOT VALID: not a Sigstore bundle v0.3\n")


@needs_openssl
def test_openssl_script_says_how_it_is_used() -> None:
    result = openssl()
    assert result.returncode == 2
    assert result.stderr == f"usage: {SCRIPT} X.sigstore.json KEY.pub.pem [X.evidence]\n".encode()


# npm @sigstore/verify, given the verifier's key whatever the bundle hints at.


@pytest.fixture(scope="session")
def sigstore_js(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sigstore_js")
    for name in ("package.json", "package-lock.json", "verify.js"):
        shutil.copy(SIGSTORE_JS / name, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return folder / "verify.js"


@needs_npm
def test_sigstore_js_accepts(sigstore_js: Path, good: Files) -> None:
    result = subprocess.run(["node", sigstore_js, good.certificate, good.key], capture_output=True, check=False)
    assert (result.returncode, result.stdout) == (0, good.payload), result.stderr


@needs_npm
def test_sigstore_js_refuses(sigstore_js: Path, forged: Files) -> None:
    result = subprocess.run(["node", sigstore_js, forged.certificate, forged.key], capture_output=True, check=False)
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr == b"SIGNATURE_ERROR: signature verification failed\n"


# Python securesystemslib: its own envelope, its own key.


def securesystemslib_payload(files: Files) -> bytes:
    key = SSlibKey.from_crypto(load_pem_public_key(files.key.read_bytes()))
    envelope = Envelope.from_dict(json.loads(files.certificate.read_bytes())["dsseEnvelope"])
    # That library picks keys by keyid; ours is the verifier's, whatever the file calls it.
    (signature,) = envelope.signatures.values()
    key.keyid = signature.keyid
    envelope.verify([key], threshold=1)
    return envelope.payload


def test_securesystemslib_accepts(good: Files) -> None:
    assert securesystemslib_payload(good) == good.payload


def test_securesystemslib_refuses(forged: Files) -> None:
    with pytest.raises(VerificationError) as caught:
        securesystemslib_payload(forged)
    assert str(caught.value) == "Accepted signatures do not match threshold, Found: 0, Expected 1"


# Python in-toto-attestation: the statement inside.


def test_in_toto_attestation_accepts(payload: bytes, predicate: dict[str, Any]) -> None:
    message = google.protobuf.json_format.Parse(payload, statement_pb2.Statement())
    statement = in_toto.Statement.copy_from_pb(message)
    statement.validate()
    assert [(subject.name, dict(subject.digest)) for subject in statement.pb.subject] == [
        ("recipe.toml", {"sha256": "7" * 64}),
        ("tokens.parquet", {"sha256": "8" * 64}),
    ]
    assert statement.pb.predicate_type == "urn:samebits:certificate:v1"
    assert google.protobuf.json_format.MessageToDict(statement.pb.predicate) == predicate


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("_type", "https://in-toto.io/Statement/v0.1", "Wrong statement type"),
        ("subject", [], "At least one subject required"),
        ("subject", [{"name": "x", "digest": {}}], r"At least one digest required \(subject 0\)"),
        ("predicateType", "", "Predicate type required"),
        ("predicate", {}, "Predicate object required"),
    ],
)
def test_in_toto_attestation_refuses(statement: dict[str, Any], key: str, value: Any, message: str) -> None:
    statement[key] = value
    parsed = google.protobuf.json_format.Parse(json.dumps(statement), statement_pb2.Statement())
    with pytest.raises(ValueError, match=message):
        in_toto.Statement.copy_from_pb(parsed).validate()


def test_configuration_entries_are_in_toto_resource_descriptors(predicate: dict[str, Any]) -> None:
    for entry in predicate["configuration"]:
        parsed = google.protobuf.json_format.ParseDict(entry, resource_descriptor_pb2.ResourceDescriptor())
        resource_descriptor.ResourceDescriptor.copy_from_pb(parsed).validate()
        assert google.protobuf.json_format.MessageToDict(parsed) == entry
