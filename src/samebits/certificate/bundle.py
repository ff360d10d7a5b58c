"""The file around the envelope: a Sigstore bundle v0.3 that holds one DSSE envelope and names one key.

It has no transparency log and no timestamp; what those would prove, this format does not claim.
"""

from __future__ import annotations

from typing import Final

from samebits.certificate import dsse, strict_json
from samebits.certificate.keys import PrivateKey, PublicKey
from samebits.certificate.statement import STATEMENT_LIMIT
from samebits.certificate.strict_json import closed_object, invalid, quoted, string

MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
BUNDLE_LIMIT: Final = STATEMENT_LIMIT * 4 // 3 + 16 * 1024
"""Bytes; room for the largest statement in base64."""

_DEPTH = 8


def sign(statement: bytes, key: PrivateKey) -> bytes:
    """The bundle over ``statement``, as the bytes of its file.  Signs whatever it is given."""
    bundle = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": key.public.fingerprint}},
        "dsseEnvelope": dsse.seal(statement, key),
    }
    return strict_json.dumps(bundle) + b"\n"


def open_bundle(data: bytes, key: PublicKey, *, source: str = "bundle") -> bytes:
    """The statement in the bundle ``data`` after ``key`` has checked its signature.

    ``key`` is the verifier's own.  The hint in the file must agree with it and selects nothing; an X.509 certificate,
    a log entry or a timestamp in the file is refused as an unknown key.

    Raises:
        InvalidCertificate: with a distinct field or reason for each fault; ``source`` names the file.
    """
    value = strict_json.loads(data, source=source, limit=BUNDLE_LIMIT, depth=_DEPTH)
    where = f"{source}: "
    bundle = closed_object(value, source, ("mediaType", "verificationMaterial", "dsseEnvelope"))
    media_type = string(bundle["mediaType"], f"{where}mediaType")
    if media_type != MEDIA_TYPE:
        raise invalid(f"{where}mediaType", found=quoted(media_type), accepted=MEDIA_TYPE)
    material = closed_object(bundle["verificationMaterial"], f"{where}verificationMaterial", ("publicKey",))
    identifier = closed_object(material["publicKey"], f"{where}verificationMaterial.publicKey", ("hint",))
    dsse.check_key(identifier["hint"], key, f"{where}verificationMaterial.publicKey.hint")
    return dsse.unseal(bundle["dsseEnvelope"], key, where=f"{where}dsseEnvelope")
