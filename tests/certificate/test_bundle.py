"""Every way of tampering that does not need the signer's key, and what it is answered."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from samebits.certificate import BUNDLE_LIMIT, PrivateKey, open_bundle, pae, sign, strict_json
from samebits.errors import InvalidCertificate

Change = Callable[[dict[str, Any]], object]
SIG = "bundle: dsseEnvelope.signatures[0].sig"
BASE64 = "canonical base64 (RFC 4648, section 4), not empty"


def put(*path: Any, value: Any) -> Change:
    def change(bundle: dict[str, Any]) -> None:
        target: Any = bundle
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value

    return change


def drop(*path: Any) -> Change:
    def change(bundle: dict[str, Any]) -> None:
        target: Any = bundle
        for step in path[:-1]:
            target = target[step]
        del target[path[-1]]

    return change


def edit(*path: Any, by: Callable[[str], str]) -> Change:
    def change(bundle: dict[str, Any]) -> None:
        target: Any = bundle
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = by(target[path[-1]])

    return change


def flipped(text: str) -> str:
    """One bit of the last byte."""
    data = bytearray(base64.b64decode(text))
    data[-1] ^= 1
    return base64.b64encode(data).decode()


def refusal(data: bytes, key: PrivateKey) -> InvalidCertificate:
    with pytest.raises(InvalidCertificate) as caught:
        open_bundle(data, key.public)
    return caught.value


def test_the_file(payload: bytes, key: PrivateKey, ed25519_key: PrivateKey) -> None:
    for signer in (key, ed25519_key):
        data = sign(payload, signer)
        assert open_bundle(data, signer.public) == payload
        assert data.endswith(b"}\n")
        bundle = json.loads(data)
        sig = bundle["dsseEnvelope"]["signatures"][0].pop("sig")
        assert signer.public.is_signature(base64.b64decode(sig), pae("application/vnd.in-toto+json", payload))
        assert bundle == {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": signer.public.fingerprint}},
            "dsseEnvelope": {
                "payload": base64.b64encode(payload).decode(),
                "payloadType": "application/vnd.in-toto+json",
                "signatures": [{"keyid": signer.public.fingerprint}],
            },
        }


ENVELOPE = "dsseEnvelope"
CHANGES: dict[str, tuple[Change, str, str, str | None]] = {
    # name: change, field, found, accepted (None: names the key)
    "media type of v0.2": (
        put("mediaType", value="application/vnd.dev.sigstore.bundle+json;version=0.2"),
        "bundle: mediaType",
        "'application/vnd.dev.sigstore.bundle+json;version=0.2'",
        "application/vnd.dev.sigstore.bundle.v0.3+json",
    ),
    "media type no string": (put("mediaType", value=None), "bundle: mediaType", "null", "a string"),
    "no media type": (drop("mediaType"), "bundle: bundle.mediaType", "nothing", "a value"),
    "a key of one's own in the file": (
        put("verificationMaterial", "publicKey", "rawBytes", value="AAAA"),
        "bundle: verificationMaterial.publicKey.rawBytes",
        "an unknown key",
        "hint",
    ),
    "a certificate in the file": (
        put("verificationMaterial", "certificate", value={"rawBytes": "AAAA"}),
        "bundle: verificationMaterial.certificate",
        "an unknown key",
        "publicKey",
    ),
    "a log entry": (
        put("verificationMaterial", "tlogEntries", value=[]),
        "bundle: verificationMaterial.tlogEntries",
        "an unknown key",
        "publicKey",
    ),
    "a second content": (
        put("messageSignature", value={}),
        "bundle: bundle.messageSignature",
        "an unknown key",
        "mediaType, verificationMaterial, dsseEnvelope",
    ),
    "no envelope": (drop(ENVELOPE), "bundle: bundle.dsseEnvelope", "nothing", "a value"),
    "envelope no object": (put(ENVELOPE, value=[]), "bundle: dsseEnvelope", "an array", "an object"),
    "no signature": (
        put(ENVELOPE, "signatures", value=[]),
        "bundle: dsseEnvelope.signatures",
        "0 signatures",
        "exactly one",
    ),
    "two signatures": (
        lambda bundle: bundle[ENVELOPE]["signatures"].append(bundle[ENVELOPE]["signatures"][0]),
        "bundle: dsseEnvelope.signatures",
        "2 signatures",
        "exactly one",
    ),
    "signatures no array": (
        put(ENVELOPE, "signatures", value="x"),
        "bundle: dsseEnvelope.signatures",
        "a string",
        "an array",
    ),
    "unsigned key in a signature": (
        put(ENVELOPE, "signatures", 0, "cert", value="x"),
        "bundle: dsseEnvelope.signatures[0].cert",
        "an unknown key",
        "keyid, sig",
    ),
    "swapped payload type": (
        put(ENVELOPE, "payloadType", value="application/json"),
        "bundle: dsseEnvelope.payloadType",
        "'application/json'",
        "application/vnd.in-toto+json",
    ),
    "payload not base64": (
        put(ENVELOPE, "payload", value="a*b="),
        "bundle: dsseEnvelope.payload",
        "'a*b='",
        BASE64,
    ),
    "payload in the URL alphabet": (
        put(ENVELOPE, "payload", value="_-8="),
        "bundle: dsseEnvelope.payload",
        "'_-8='",
        BASE64,
    ),
    "payload without padding": (
        put(ENVELOPE, "payload", value="YQ"),
        "bundle: dsseEnvelope.payload",
        "'YQ'",
        BASE64,
    ),
    "payload with bits after the end": (
        put(ENVELOPE, "payload", value="YR=="),
        "bundle: dsseEnvelope.payload",
        "'YR=='",
        BASE64,
    ),
    "payload with a line break": (
        put(ENVELOPE, "payload", value="YWJj\nYWJj"),
        "bundle: dsseEnvelope.payload",
        "'YWJj\\nYWJj'",
        BASE64,
    ),
    "payload beyond ASCII": (
        put(ENVELOPE, "payload", value="é==="),
        "bundle: dsseEnvelope.payload",
        "'é==='",
        BASE64,
    ),
    "empty payload": (put(ENVELOPE, "payload", value=""), "bundle: dsseEnvelope.payload", "''", BASE64),
    "payload no string": (put(ENVELOPE, "payload", value=1), "bundle: dsseEnvelope.payload", "a number", "a string"),
    "empty signature": (put(ENVELOPE, "signatures", 0, "sig", value=""), SIG, "''", BASE64),
    "another hint": (
        put("verificationMaterial", "publicKey", "hint", value="f" * 64),
        "bundle: verificationMaterial.publicKey.hint",
        f"key {'f' * 64!r}",
        None,
    ),
    "another keyid": (
        put(ENVELOPE, "signatures", 0, "keyid", value="\x1b[2J"),
        "bundle: dsseEnvelope.signatures[0].keyid",
        "key '\\x1b[2J'",
        None,
    ),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_refused_for_its_form(bundle: dict[str, Any], key: PrivateKey, name: str) -> None:
    change, field, found, accepted = CHANGES[name]
    change(bundle)
    error = refusal(strict_json.dumps(bundle), key)
    accepted = accepted or f"key {key.public.fingerprint}, the one you gave"
    assert (error.field, error.found, error.accepted) == (field, found, accepted)


@pytest.mark.parametrize(
    "change",
    [
        edit(ENVELOPE, "payload", by=flipped),
        edit(ENVELOPE, "payload", by=lambda text: base64.b64encode(base64.b64decode(text) + b"\n").decode()),
        edit(ENVELOPE, "signatures", 0, "sig", by=flipped),
        edit(ENVELOPE, "signatures", 0, "sig", by=lambda text: base64.b64encode(base64.b64decode(text)[:-1]).decode()),
        put(ENVELOPE, "signatures", 0, "sig", value=base64.b64encode(bytes(64)).decode()),
    ],
    ids=["flipped payload bit", "longer payload", "flipped signature bit", "truncated signature", "zeros"],
)
def test_refused_for_its_signature(bundle: dict[str, Any], key: PrivateKey, change: Change) -> None:
    change(bundle)
    error = refusal(strict_json.dumps(bundle), key)
    assert (error.field, error.found, error.accepted) == (
        SIG,
        "a signature that does not fit",
        f"a signature of key {key.public.fingerprint} over this payload and type",
    )


def test_every_single_flipped_payload_byte_is_refused(bundle: dict[str, Any], payload: bytes, key: PrivateKey) -> None:
    for index in range(0, len(payload), 7):
        changed = payload[:index] + bytes([payload[index] ^ 0x20]) + payload[index + 1 :]
        bundle[ENVELOPE]["payload"] = base64.b64encode(changed).decode()
        assert refusal(strict_json.dumps(bundle), key).field == SIG


def test_another_key_is_named(payload: bytes, key: PrivateKey, other_key: PrivateKey, ed25519_key: PrivateKey) -> None:
    for given in (other_key, ed25519_key):
        error = refusal(sign(payload, key), given)
        assert str(error) == (
            f"bundle: verificationMaterial.publicKey.hint: found key '{key.public.fingerprint}'; "
            f"accepted: key {given.public.fingerprint}, the one you gave. "
            "Do not rely on this certificate; ask its signer for a sound one."
        )


def test_naming_the_verifiers_key_does_not_help_a_forger(
    payload: bytes, key: PrivateKey, other_key: PrivateKey
) -> None:
    forged = sign(payload, other_key).replace(other_key.public.fingerprint.encode(), key.public.fingerprint.encode())
    assert refusal(forged, key).field == SIG


def test_a_signature_over_another_type_of_document_is_none(
    bundle: dict[str, Any], payload: bytes, key: PrivateKey
) -> None:
    signature = key.sign(pae("application/json", payload))
    bundle[ENVELOPE]["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    assert refusal(strict_json.dumps(bundle), key).field == SIG


@pytest.mark.parametrize(
    ("data", "field", "found"),
    [
        (b"", "bundle: character 0", "not JSON (Expecting value)"),
        (b"\x7fELF\xff", "bundle: byte 4", "not UTF-8"),
        (b"[]", "bundle: bundle", "an array"),
        (b'{"mediaType": "x", "mediaType": "y"}', "bundle: mediaType", "a duplicate key"),
        (b"[" * 9, "bundle: character 8", "nesting deeper than 8"),
        (b" " * (BUNDLE_LIMIT + 1), "bundle", f"{BUNDLE_LIMIT + 1} bytes"),
    ],
    ids=["empty", "binary", "array", "duplicate", "deep", "large"],
)
def test_what_is_no_bundle(key: PrivateKey, data: bytes, field: str, found: str) -> None:
    error = refusal(data, key)
    assert (error.field, error.found) == (field, found)


def test_truncated_anywhere(payload: bytes, key: PrivateKey) -> None:
    data = sign(payload, key).rstrip()
    for length in range(0, len(data), 97):
        assert refusal(data[:length], key).found.startswith("not JSON")


def test_the_largest_statement_fits(key: PrivateKey) -> None:
    payload = b" " * (4 * 1024 * 1024)
    assert open_bundle(sign(payload, key), key.public) == payload
