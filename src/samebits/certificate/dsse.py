"""Dead Simple Signing Envelope v1 (secure-systems-lab/dsse, ``protocol.md``): what exactly is signed."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Envelope:
    """A payload of type :data:`PAYLOAD_TYPE` and one signature over both."""

    payload: bytes
    keyid: str
    """What the file says about its key; it is compared with the verifier's and never used to choose one."""
    signature: bytes

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-ready object."""
        return {
            "payload": _encode(self.payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"keyid": self.keyid, "sig": _encode(self.signature)}],
        }

    @classmethod
    def from_dict(cls, value: Any, *, where: str) -> Envelope:
        """The envelope in parsed JSON; its signature is not checked.

        Raises:
            InvalidCertificate: unknown or missing keys, not exactly one signature, another payload type, base64 that
                is not canonical.
        """
        fields = closed_object(value, where, ("payload", "payloadType", "signatures"))
        signatures = array(fields["signatures"], f"{where}.signatures")
        if len(signatures) != 1:
            raise invalid(f"{where}.signatures", found=f"{len(signatures)} signatures", accepted="exactly one")
        signature = closed_object(signatures[0], f"{where}.signatures[0]", ("keyid", "sig"))
        payload_type = string(fields["payloadType"], f"{where}.payloadType")
        if payload_type != PAYLOAD_TYPE:
            raise invalid(f"{where}.payloadType", found=quoted(payload_type), accepted=PAYLOAD_TYPE)
        return cls(
            payload=_decode(fields["payload"], f"{where}.payload"),
            keyid=string(signature["keyid"], f"{where}.signatures[0].keyid"),
            signature=_decode(signature["sig"], f"{where}.signatures[0].sig"),
        )

    def check(self, key: PublicKey, *, where: str) -> None:
        """Nothing if ``key`` made the signature.

        Raises:
            InvalidCertificate: another key, or a signature that does not fit.
        """
        check_keyid(self.keyid, key, f"{where}.signatures[0].keyid")
        if not key.is_signature(self.signature, pae(PAYLOAD_TYPE, self.payload)):
            raise invalid(
                f"{where}.signatures[0].sig",
                found="a signature that does not fit",
                accepted=f"a signature of key {key.fingerprint} over this payload and type",
            )


def sign(payload: bytes, key: PrivateKey) -> Envelope:
    """An envelope around ``payload``, signed."""
    return Envelope(payload=payload, keyid=key.public.fingerprint, signature=key.sign(pae(PAYLOAD_TYPE, payload)))


def check_keyid(keyid: str, key: PublicKey, where: str) -> None:
    """Nothing if ``keyid`` is the fingerprint of the verifier's own ``key``.

    Raises:
        InvalidCertificate: naming both fingerprints.
    """
    if keyid != key.fingerprint:
        raise invalid(where, found=f"key {quoted(keyid)}", accepted=f"key {key.fingerprint}, the one you gave")


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(value: Any, where: str) -> bytes:
    text = string(value, where)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    # Encoding again finds what decoders let pass: bits after the end, padding in the middle.
    if not data or _encode(data) != text:
        raise invalid(where, found=quoted(text), accepted="canonical base64 (RFC 4648, section 4), not empty")
    return data
