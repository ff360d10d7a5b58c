"""The certificate: what is signed, how, with which keys, and where it lies.

Nothing here judges evidence; ``docs/certificate-format.md`` describes the same for somebody who writes a verifier.
"""

from samebits.certificate.bundle import BUNDLE_LIMIT, MEDIA_TYPE, open_bundle, sign
from samebits.certificate.certificate import Certificate, open_certificate, read_statement, sign_certificate
from samebits.certificate.dsse import PAYLOAD_TYPE, pae
from samebits.certificate.keys import (
    PrivateKey,
    PublicKey,
    default_folder,
    ensure_default_key,
    generate,
    load_private,
    load_public,
    public_path,
)
from samebits.certificate.predicate import DERIVED, VERDICTS, Kit, Material, Predicate, Reproduces, Resource, Run
from samebits.certificate.revoked import Revocation, Revocations, load_revocations
from samebits.certificate.statement import PREDICATE_TYPE, STATEMENT_LIMIT, Statement, Subject
from samebits.certificate.store import bundle_path, evidence_folder, statement_path, subject_file

__all__ = [
    "BUNDLE_LIMIT",
    "DERIVED",
    "MEDIA_TYPE",
    "PAYLOAD_TYPE",
    "PREDICATE_TYPE",
    "STATEMENT_LIMIT",
    "VERDICTS",
    "Certificate",
    "Kit",
    "Material",
    "Predicate",
    "PrivateKey",
    "PublicKey",
    "Reproduces",
    "Resource",
    "Revocation",
    "Revocations",
    "Run",
    "Statement",
    "Subject",
    "bundle_path",
    "default_folder",
    "ensure_default_key",
    "evidence_folder",
    "generate",
    "load_private",
    "load_public",
    "load_revocations",
    "open_bundle",
    "open_certificate",
    "pae",
    "public_path",
    "read_statement",
    "sign",
    "sign_certificate",
    "statement_path",
    "subject_file",
]
