"""The file around the envelope: a Sigstore bundle v0.3 that holds one DSSE envelope and names one key.

https://github.com/sigstore/protobuf-specs, ``sigstore_bundle.proto``.  There is no transparency log and no timestamp;
what those would prove, this format does not claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from samebits.certificate import dsse, strict_json
from samebits.certificate.dsse import Envelope
from samebits.certificate.keys import PrivateKey, PublicKey
from samebits.certificate.statement import STATEMENT_LIMIT
from samebits.certificate.strict_json import closed_object, invalid, quoted, string

MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
BUNDLE_LIMIT: Final = STATEMENT_LIMIT * 4 // 3 + 16 * 1024
"""Bytes; room for the largest statement in base64."""

_DEPTH = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """A parsed bundle.  Nothing in it is to be believed before :meth:`check`."""

    envelope: Envelope
    hint: str
    source: str

    def check(self, key: PublicKey) -> bytes:
        """The payload, if ``key`` signed it.

        ``key`` is the verifier's own: hint and keyid must agree with it and choose nothing.

        Raises:
            InvalidCertificate: another key, or a signature that does not fit.
        """
        dsse.check_keyid(self.hint, key, f"{self.source}: verificationMaterial.publicKey.hint")
        self.envelope.check(key, where=f"{self.source}: dsseEnvelope")
        return self.envelope.payload


def sign(statement: bytes, key: PrivateKey) -> bytes:
    """The bundle over ``statement``, as the bytes of its file.  Signs whatever it is given."""
    bundle = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": key.public.fingerprint}},
        "dsseEnvelope": dsse.sign(statement, key).to_dict(),
    }
    return strict_json.dumps(bundle) + b"\n"


def read_bundle(data: bytes, *, source: str = "bundle") -> Bundle:
    """The bundle in ``data``; its signature is not checked.

    Raises:
        InvalidCertificate: with a distinct field or reason for each fault; ``source`` names the file.  An X.509
            certificate, a log entry or a timestamp is refused as an unknown key.
    """
    value = strict_json.loads(data, source=source, limit=BUNDLE_LIMIT, depth=_DEPTH)
    where = f"{source}: "
    fields = closed_object(value, f"{where}bundle", ("mediaType", "verificationMaterial", "dsseEnvelope"))
    media_type = string(fields["mediaType"], f"{where}mediaType")
    if media_type != MEDIA_TYPE:
        raise invalid(f"{where}mediaType", found=quoted(media_type), accepted=MEDIA_TYPE)
    material = closed_object(fields["verificationMaterial"], f"{where}verificationMaterial", ("publicKey",))
    public_key = closed_object(material["publicKey"], f"{where}verificationMaterial.publicKey", ("hint",))
    hint = string(public_key["hint"], f"{where}verificationMaterial.publicKey.hint")
    envelope = Envelope.from_dict(fields["dsseEnvelope"], where=f"{where}dsseEnvelope")
    return Bundle(envelope=envelope, hint=hint, source=source)


def open_bundle(data: bytes, key: PublicKey, *, source: str = "bundle") -> bytes:
    """The statement in the bundle ``data`` after the verifier's ``key`` has checked its signature.

    Raises:
        InvalidCertificate: what :func:`read_bundle` and :meth:`Bundle.check` refuse.
    """
    return read_bundle(data, source=source).check(key)
