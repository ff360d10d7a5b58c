"""The certificate: what is signed, how, with which keys, and where it lies.

Nothing here judges evidence.  ``docs/certificate-format.md`` describes the format for somebody who writes a verifier.
"""

from samebits.certificate.bundle import BUNDLE_LIMIT, MEDIA_TYPE, open_bundle, sign
from samebits.certificate.certificate import (
    Certificate,
    check_subjects,
    check_unchanged,
    open_certificate,
    read_statement,
    read_unverified,
    sign_certificate,
    subjects_of,
    write_statement,
)
from samebits.certificate.dsse import PAYLOAD_TYPE, pae
from samebits.certificate.keys import (
    KeyPair,
    PrivateKey,
    PublicKey,
    default_key_folder,
    ensure_default_key,
    generate_key,
    load_private,
    load_public,
    public_path,
)
from samebits.certificate.predicate import DERIVED, VERDICTS, Kit, Material, Predicate, Reproduces, Resource, Run
from samebits.certificate.revoked import Revocation, Revocations, load_revocations
from samebits.certificate.signing import Signed, require_key, sign_run
from samebits.certificate.statement import PREDICATE_TYPE, STATEMENT_LIMIT, Statement, Subject
from samebits.certificate.store import (
    BUNDLE_SUFFIX,
    EVIDENCE_LIMIT,
    EVIDENCE_SUFFIX,
    STATEMENT_SUFFIX,
    Stamp,
    bundle_path,
    evidence_folder,
    read_limited,
    statement_path,
    subject_file,
    write_atomic,
)

__all__ = [
    "BUNDLE_LIMIT",
    "BUNDLE_SUFFIX",
    "DERIVED",
    "EVIDENCE_LIMIT",
    "EVIDENCE_SUFFIX",
    "MEDIA_TYPE",
    "PAYLOAD_TYPE",
    "PREDICATE_TYPE",
    "STATEMENT_LIMIT",
    "STATEMENT_SUFFIX",
    "VERDICTS",
    "Certificate",
    "KeyPair",
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
    "Signed",
    "Stamp",
    "Statement",
    "Subject",
    "bundle_path",
    "check_subjects",
    "check_unchanged",
    "default_key_folder",
    "ensure_default_key",
    "evidence_folder",
    "generate_key",
    "load_private",
    "load_public",
    "load_revocations",
    "open_bundle",
    "open_certificate",
    "pae",
    "public_path",
    "read_limited",
    "read_statement",
    "read_unverified",
    "require_key",
    "sign",
    "sign_certificate",
    "sign_run",
    "statement_path",
    "subject_file",
    "subjects_of",
    "write_atomic",
    "write_statement",
]
