from __future__ import annotations

import base64

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from samebits.certificate import PAYLOAD_TYPE, PrivateKey, PublicKey, dsse, pae


def test_the_specifications_own_example() -> None:
    """secure-systems-lab/dsse, protocol.md, "Test Vectors"."""
    assert pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    numbers = ec.EllipticCurvePublicNumbers(
        46950820868899156662930047687818585632848591499744589407958293238635476079160,
        5640078356564379163099075877009565129882514886557779369047442380624545832820,
        ec.SECP256R1(),
    )
    # There the signature is r and s one after the other; here, as in Sigstore, it is their DER.
    raw = base64.b64decode("A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA==")
    signature = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
    key = PublicKey(numbers.public_key())
    assert key.is_signature(signature, pae("http://example.com/HelloWorld", b"hello world"))
    assert not key.is_signature(signature, pae("http://example.com/HelloWorld", b"hello worlD"))


def test_lengths_are_bytes_not_characters() -> None:
    assert pae("é", "日本".encode()) == "DSSEv1 2 é 6 日本".encode()
    assert pae("", b"") == b"DSSEv1 0  0 "


def test_no_two_pairs_share_an_encoding() -> None:
    assert pae("a", b"b 1 c") != pae("a 5 b", b"c")


def test_sign_and_read_back(key: PrivateKey, ed25519_key: PrivateKey) -> None:
    for signer in (key, ed25519_key):
        envelope = dsse.sign(b"payload", signer)
        assert envelope.payload == b"payload"
        assert envelope.keyid == signer.public.fingerprint
        assert signer.public.is_signature(envelope.signature, b"DSSEv1 28 application/vnd.in-toto+json 7 payload")
        assert envelope.to_dict()["payloadType"] == PAYLOAD_TYPE == "application/vnd.in-toto+json"
        assert dsse.Envelope.from_dict(envelope.to_dict(), where="e") == envelope
