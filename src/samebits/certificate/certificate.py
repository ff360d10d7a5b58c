"""A whole certificate: bundle, envelope, statement and predicate, opened in that order."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.certificate import bundle, predicate, statement
from samebits.certificate.keys import PrivateKey, PublicKey
from samebits.certificate.predicate import Predicate
from samebits.certificate.statement import Statement
from samebits.hashing import sha256_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Certificate:
    """What a key has signed: the bytes, and what they say."""

    payload: bytes
    """The statement as it was signed."""
    statement: Statement
    predicate: Predicate
    keyid: str
    """Fingerprint of the key that checked the signature."""

    @property
    def sha256(self) -> str:
        """sha256 of the payload: what ``reproduces`` and revocations call this certificate."""
        return sha256_bytes(self.payload)


def sign_certificate(payload: bytes, key: PrivateKey) -> bytes:
    """The certificate file of the statement ``payload``, signed.

    Raises:
        InvalidCertificate: whatever :func:`open_certificate` would refuse; it is not signed.
    """
    read_statement(payload)
    return bundle.sign(payload, key)


def open_certificate(data: bytes, key: PublicKey, *, source: str = "certificate") -> Certificate:
    """The certificate in the file's bytes ``data``, whose signature the verifier's own ``key`` has checked.

    It says nothing yet about the evidence, nor about revocation.

    Raises:
        InvalidCertificate: the first fault; nothing inside is parsed before the signature has been checked.
    """
    payload = bundle.open_bundle(data, key, source=source)
    parsed, said = read_statement(payload)
    return Certificate(payload=payload, statement=parsed, predicate=said, keyid=key.fingerprint)


def read_statement(payload: bytes) -> tuple[Statement, Predicate]:
    """The statement in ``payload`` and its predicate, signed or not.

    Raises:
        InvalidCertificate: the first fault.
    """
    parsed = statement.parse(payload)
    return parsed, predicate.parse(parsed.predicate, source="statement: predicate")
