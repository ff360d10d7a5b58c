"""Tampering with the certificate's file: by anybody, without a key."""

from __future__ import annotations

import base64
import os
from typing import Any, Final

from samebits.certificate import BUNDLE_LIMIT
from tampering.genuine import OWN_KEY, Genuine, committed, flipped_base64, signed_by_nobody
from tampering.table import CERTIFICATE, INPUT, Case, case

Bundle = dict[str, Any]


def _envelope(change: Any) -> Any:
    return lambda genuine: genuine.rewrite(lambda value: change(value["dsseEnvelope"]))


def _payload_byte(envelope: Bundle) -> None:
    envelope["payload"] = flipped_base64(envelope["payload"], 1000)


def _signature_byte(envelope: Bundle) -> None:
    signature = envelope["signatures"][0]
    signature["sig"] = flipped_base64(signature["sig"], 20)


def _signature_of_another(genuine: Genuine) -> None:
    other = Genuine.__new__(Genuine)
    other.path = committed("dense-smollm2")
    signature = other.bundle["dsseEnvelope"]["signatures"]
    genuine.rewrite(lambda value: value["dsseEnvelope"].update(signatures=signature))


def _second_signature(genuine: Genuine) -> None:
    extra = {"keyid": OWN_KEY.public.fingerprint, "sig": base64.b64encode(OWN_KEY.sign(b"")).decode()}
    genuine.rewrite(lambda value: value["dsseEnvelope"]["signatures"].append(extra))


def _replaced(make: Any) -> Any:
    def act(genuine: Genuine) -> None:
        genuine.path.unlink()
        make(genuine.path)

    return act


def _linked(genuine: Genuine) -> None:
    real = genuine.path.with_name("real")
    genuine.path.rename(real)
    genuine.path.symlink_to(real)


def _renamed(genuine: Genuine) -> None:
    genuine.path = genuine.path.rename(genuine.path.with_name("one.json"))


def _material(change: Any) -> Any:
    return lambda genuine: genuine.rewrite(lambda value: change(value["verificationMaterial"]))


def _bytes(change: Any) -> Any:
    return lambda genuine: genuine.path.write_bytes(change(genuine.path.read_bytes()))


def _spare_bits(envelope: Bundle) -> None:
    signature = envelope["signatures"][0]
    signature["sig"] = "AB=="


def _media_type(value: Bundle) -> None:
    value["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.1"


def _message(value: Bundle) -> None:
    value["messageSignature"] = value.pop("dsseEnvelope")


def _digits(genuine: Genuine) -> None:
    _envelope(lambda value: value.update(signatures=12345678))(genuine)
    genuine.retype("12345678", "1" * 1_000_000)


def nested(depth: int) -> list[Any]:
    """Empty lists in each other."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def _wrapped(genuine: Genuine) -> None:
    payload = genuine.bundle["dsseEnvelope"]["payload"]
    genuine.retype(payload, payload[:76] + "\\n" + payload[76:])


CASES: Final[tuple[Case, ...]] = (
    case(
        "a payload byte",
        _envelope(_payload_byte),
        CERTIFICATE,
        (
            "one.sigstore.json: dsseEnvelope.signatures[N].sig: found a signature that does not fit; "
            "accepted: a signature of key <sha256> over this payload and type"
        ),
    ),
    case(
        "payload type",
        _envelope(lambda value: value.update(payloadType="application/json")),
        CERTIFICATE,
        (
            "one.sigstore.json: dsseEnvelope.payloadType: found 'application/json'; accepted: "
            "application/vnd.in-toto+json"
        ),
    ),
    case(
        "a signature byte",
        _envelope(_signature_byte),
        CERTIFICATE,
        (
            "one.sigstore.json: dsseEnvelope.signatures[N].sig: found a signature that does not fit; "
            "accepted: a signature of key <sha256> over this payload and type"
        ),
    ),
    case(
        "signature cut off",
        _envelope(lambda value: value["signatures"][0].update(sig="MEU=")),
        CERTIFICATE,
        (
            "one.sigstore.json: dsseEnvelope.signatures[N].sig: found a signature that does not fit; "
            "accepted: a signature of key <sha256> over this payload and type"
        ),
    ),
    case(
        "no signature",
        _envelope(lambda value: value["signatures"][0].update(sig="")),
        CERTIFICATE,
        (
            "one.sigstore.json: dsseEnvelope.signatures[N].sig: found ''; accepted: canonical base64 (RFC "
            "4648, section 4), not empty"
        ),
    ),
    case(
        "the signature of another certificate",
        _signature_of_another,
        CERTIFICATE,
        (
            "one.sigstore.json: dsseEnvelope.signatures[N].sig: found a signature that does not fit; "
            "accepted: a signature of key <sha256> over this payload and type"
        ),
    ),
    case(
        "a second signature",
        _second_signature,
        CERTIFICATE,
        "one.sigstore.json: dsseEnvelope.signatures: found 2 signatures; accepted: exactly one",
    ),
    case(
        "no signatures",
        _envelope(lambda value: value.update(signatures=[])),
        CERTIFICATE,
        "one.sigstore.json: dsseEnvelope.signatures: found 0 signatures; accepted: exactly one",
    ),
    case(
        "base64 in lines",
        _wrapped,
        CERTIFICATE,
        (
            "one.sigstore.json: dsseEnvelope.payload: found "
            "'eyJfdHlwZSI6Imh0dHBzOi8vaW4tdG90by5pby9TdGF0ZW1lbnQvdjEiLCJwcmVkaWNhdGUiOnsi\\nY29'…; accepted: "
            "canonical base64 (RFC 4648, section 4), not empty"
        ),
    ),
    case(
        "base64 with bits to spare",
        _envelope(_spare_bits),
        CERTIFICATE,
        (
            "one.sigstore.json: dsseEnvelope.signatures[N].sig: found 'AB=='; accepted: canonical base64 (RFC "
            "4648, section 4), not empty"
        ),
    ),
    # Which key
    case(
        "a certificate of another key",
        lambda genuine: setattr(genuine, "key", OWN_KEY.public),
        CERTIFICATE,
        (
            "one.sigstore.json: verificationMaterial.publicKey.hint: found key '<sha256>'; accepted: key "
            "<sha256>, the one you gave"
        ),
    ),
    case(
        "keyid changed",
        _envelope(lambda value: value["signatures"][0].update(keyid="ab" * 32)),
        CERTIFICATE,
        (
            "one.sigstore.json: dsseEnvelope.signatures[N].keyid: found key '<sha256>'; accepted: key "
            "<sha256>, the one you gave"
        ),
    ),
    case(
        "keyid emptied",
        _envelope(lambda value: value["signatures"][0].update(keyid="")),
        CERTIFICATE,
        ("one.sigstore.json: dsseEnvelope.signatures[N].keyid: found key ''; accepted: key <sha256>, the one you gave"),
    ),
    case(
        "hint changed",
        _material(lambda value: value["publicKey"].update(hint="cd" * 32)),
        CERTIFICATE,
        (
            "one.sigstore.json: verificationMaterial.publicKey.hint: found key '<sha256>'; accepted: key "
            "<sha256>, the one you gave"
        ),
    ),
    case(
        "a key in the file",
        _material(lambda value: value["publicKey"].update(rawBytes="MFk=")),
        CERTIFICATE,
        "one.sigstore.json: verificationMaterial.publicKey.rawBytes: found an unknown key; accepted: hint",
    ),
    case(
        "an X.509 certificate in the file",
        _material(lambda value: value.update(certificate={})),
        CERTIFICATE,
        "one.sigstore.json: verificationMaterial.certificate: found an unknown key; accepted: publicKey",
    ),
    case(
        "a log entry in the file",
        _material(lambda value: value.update(tlogEntries=[])),
        CERTIFICATE,
        "one.sigstore.json: verificationMaterial.tlogEntries: found an unknown key; accepted: publicKey",
    ),
    case(
        "signed by another in the genuine key's name",
        lambda genuine: genuine.path.write_bytes(signed_by_nobody(genuine.payload, genuine.key)),
        CERTIFICATE,
        (
            "one.sigstore.json: dsseEnvelope.signatures[N].sig: found a signature that does not fit; "
            "accepted: a signature of key <sha256> over this payload and type"
        ),
    ),
    # The file's form
    case(
        "media type of another version",
        lambda genuine: genuine.rewrite(_media_type),
        CERTIFICATE,
        (
            "one.sigstore.json: mediaType: found 'application/vnd.dev.sigstore.bundle+json;version=0.1'; "
            "accepted: application/vnd.dev.sigstore.bundle.v0.3+json"
        ),
    ),
    case(
        "a message signature in place of the envelope",
        lambda genuine: genuine.rewrite(_message),
        CERTIFICATE,
        (
            "one.sigstore.json: bundle.messageSignature: found an unknown key; accepted: mediaType, "
            "verificationMaterial, dsseEnvelope"
        ),
    ),
    case(
        "an unknown key",
        _envelope(lambda value: value.update(note="trust me")),
        CERTIFICATE,
        ("one.sigstore.json: dsseEnvelope.note: found an unknown key; accepted: payload, payloadType, signatures"),
    ),
    case(
        "a duplicate key",
        lambda genuine: genuine.retype('"payloadType":', '"payloadType": "application/json", "payloadType":'),
        CERTIFICATE,
        "one.sigstore.json: dsseEnvelope.payloadType: found a duplicate key; accepted: each key once",
    ),
    case(
        "a float",
        _envelope(lambda value: value.update(signatures=1.0)),
        CERTIFICATE,
        "one.sigstore.json: dsseEnvelope.signatures: found '1.0'; accepted: an integer, or a string",
    ),
    case(
        "a constant of JavaScript",
        _envelope(lambda value: value.update(signatures=float("nan"))),
        CERTIFICATE,
        "one.sigstore.json: dsseEnvelope.signatures: found 'NaN'; accepted: an integer, or a string",
    ),
    case(
        "a huge integer",
        _envelope(lambda value: value.update(signatures=2**53 + 1)),
        CERTIFICATE,
        (
            "one.sigstore.json: dsseEnvelope.signatures: found '9007199254740993'; accepted: an integer of "
            "magnitude at most 2^53, or a string"
        ),
    ),
    case(
        "an integer of a million digits",
        _digits,
        CERTIFICATE,
        (
            "one.sigstore.json: dsseEnvelope.signatures: found "
            "'11111111111111111111111111111111111111111111111111111111111111111111111111111111'…; accepted: "
            "an integer of magnitude at most 2^53, or a string"
        ),
    ),
    case(
        "nesting",
        lambda genuine: genuine.path.write_text("[" * 1_000_000),
        CERTIFICATE,
        "one.sigstore.json: character N: found nesting deeper than 8; accepted: at most 8 levels",
    ),
    case(
        "nesting in the envelope",
        _envelope(lambda value: value.update(signatures=nested(9))),
        CERTIFICATE,
        "one.sigstore.json: character N: found nesting deeper than 8; accepted: at most 8 levels",
    ),
    case(
        "not UTF-8",
        _bytes(lambda data: data.replace(b"mediaType", b"media\xffype")),
        CERTIFICATE,
        "one.sigstore.json: byte N: found not UTF-8; accepted: JSON in UTF-8",
    ),
    case(
        "UTF-16",
        _bytes(lambda data: data.decode().encode("utf-16")),
        CERTIFICATE,
        "one.sigstore.json: byte N: found not UTF-8; accepted: JSON in UTF-8",
    ),
    case(
        "a byte order mark",
        _bytes(lambda data: b"\xef\xbb\xbf" + data),
        CERTIFICATE,
        (
            "one.sigstore.json: character N: found not JSON (Unexpected UTF-8 BOM (decode using utf-8-sig)); "
            "accepted: JSON in UTF-8"
        ),
    ),
    case(
        "a lone surrogate",
        _bytes(lambda data: data.replace(b"mediaType", b"\\ud800")),
        CERTIFICATE,
        "one.sigstore.json: ['\\ud800']: found a lone surrogate in a key; accepted: Unicode text",
    ),
    case(
        "cut off",
        _bytes(lambda data: data[:1000]),
        CERTIFICATE,
        ("one.sigstore.json: character N: found not JSON (Unterminated string starting at); accepted: JSON in UTF-8"),
    ),
    case(
        "something after the end",
        _bytes(lambda data: data + b"{}"),
        CERTIFICATE,
        "one.sigstore.json: character N: found not JSON (Extra data); accepted: JSON in UTF-8",
    ),
    case(
        "an empty file",
        _bytes(lambda data: data[:0]),
        CERTIFICATE,
        "one.sigstore.json: character N: found not JSON (Expecting value); accepted: JSON in UTF-8",
    ),
    case(
        "too large",
        _bytes(lambda data: data + b" " * BUNDLE_LIMIT),
        CERTIFICATE,
        "./one.sigstore.json: found more than 5608789 bytes; accepted: at most 5608789 bytes",
    ),
    case(
        "too large, and sparse",
        lambda genuine: os.truncate(genuine.path, 1 << 40),
        CERTIFICATE,
        "./one.sigstore.json: found more than 5608789 bytes; accepted: at most 5608789 bytes",
    ),
    # No file at all
    case(
        "a folder",
        _replaced(lambda path: path.mkdir()),
        CERTIFICATE,
        "./one.sigstore.json: found a folder; accepted: a regular file",
    ),
    case(
        "a named pipe",
        _replaced(os.mkfifo),
        CERTIFICATE,
        "./one.sigstore.json: found a special file; accepted: a regular file",
    ),
    case(
        "a symbolic link", _linked, CERTIFICATE, "./one.sigstore.json: found a symbolic link; accepted: a regular file"
    ),
    case(
        "a link to a device",
        _replaced(lambda path: path.symlink_to("/dev/zero")),
        CERTIFICATE,
        "./one.sigstore.json: found a symbolic link; accepted: a regular file",
    ),
    case(
        "nothing",
        _replaced(lambda _: None),
        INPUT,
        "./one.sigstore.json: found no such file or directory; accepted: a readable file",
    ),
    case(
        "another name",
        _renamed,
        INPUT,
        "./one.json: found the name 'one.json'; accepted: NAME.sigstore.json or NAME.statement.json",
    ),
)
