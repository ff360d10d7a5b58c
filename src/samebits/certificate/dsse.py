"""Dead Simple Signing Envelope v1 (secure-systems-lab/dsse, ``protocol.md``): what exactly is signed."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from samebits.certificate.keys import PrivateKey, PublicKey
from samebits.certificate.strict_json import array, closed_object, invalid, quoted, string

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"


def pae(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding: ``DSSEv1 <length> <type> <length> <payload>``, lengths in bytes as decimals.

    It binds the payload to its type, so that a signature over one kind of document is none over another.
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def seal(payload: bytes, key: PrivateKey) -> dict[str, Any]:
    """An envelope around ``payload`` with one signature, as a JSON-ready object."""
    signature = key.sign(pae(PAYLOAD_TYPE, payload))
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": key.public.fingerprint, "sig": base64.b64encode(signature).decode()}],
    }


def unseal(envelope: Any, key: PublicKey, *, where: str) -> bytes:
    """The payload of ``envelope`` after ``key`` has checked its one signature.

    The keyid in the envelope is compared with ``key`` and never used to choose one.

    Raises:
        InvalidCertificate: unknown or missing keys, not exactly one signature, another payload type, base64 that is
            not canonical, another key, a signature that does not fit.
    """
    fields = closed_object(envelope, where, ("payload", "payloadType", "signatures"))
    signatures = array(fields["signatures"], f"{where}.signatures")
    if len(signatures) != 1:
        raise invalid(f"{where}.signatures", found=f"{len(signatures)} signatures", accepted="exactly one")
    signature = closed_object(signatures[0], f"{where}.signatures[0]", ("keyid", "sig"))
    payload_type = string(fields["payloadType"], f"{where}.payloadType")
    if payload_type != PAYLOAD_TYPE:
        raise invalid(f"{where}.payloadType", found=quoted(payload_type), accepted=PAYLOAD_TYPE)
    payload = _decode(fields["payload"], f"{where}.payload")
    sig = _decode(signature["sig"], f"{where}.signatures[0].sig")
    check_key(signature["keyid"], key, f"{where}.signatures[0].keyid")
    if not key.is_signature(sig, pae(payload_type, payload)):
        raise invalid(
            f"{where}.signatures[0].sig",
            found="a signature that does not fit",
            accepted=f"a signature of key {key.fingerprint} over this payload and type",
        )
    return payload


def check_key(keyid: Any, key: PublicKey, where: str) -> None:
    """Refuses a document that says it was signed with another key than the verifier's.

    Raises:
        InvalidCertificate: naming both fingerprints.
    """
    found = string(keyid, where)
    if found != key.fingerprint:
        raise invalid(where, found=f"key {quoted(found)}", accepted=f"key {key.fingerprint}, the one you gave")


def _decode(value: Any, where: str) -> bytes:
    text = string(value, where)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    # Encoding again finds what decoders let pass: missing padding, bits after the end.
    if not data or base64.b64encode(data).decode() != text:
        raise invalid(where, found=quoted(text), accepted="canonical base64 (RFC 4648, 4), not empty")
    return data
