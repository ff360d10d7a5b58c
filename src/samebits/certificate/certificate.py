"""A whole certificate: bundle, envelope, statement and predicate, opened in that order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.certificate import bundle, predicate, statement, store
from samebits.certificate.keys import PrivateKey, PublicKey
from samebits.certificate.predicate import Predicate
from samebits.certificate.statement import STATEMENT_LIMIT, Statement, Subject
from samebits.certificate.store import Stamp
from samebits.certificate.strict_json import invalid
from samebits.errors import InputError
from samebits.hashing import sha256_bytes, sha256_file


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


def write_statement(subjects: Sequence[Subject], said: Predicate) -> bytes:
    """The bytes of the statement that ``said`` is true of ``subjects``, ready to be signed.

    Raises:
        InvalidCertificate: whatever :func:`read_statement` would refuse.
        TypeError, ValueError: the findings hold what strict JSON has no place for, for instance a float.
    """
    data = statement.write(subjects, said.to_dict())
    read_statement(data)
    return data


def read_statement(payload: bytes, *, source: str = "statement") -> tuple[Statement, Predicate]:
    """The statement in ``payload`` and its predicate, signed or not.

    Raises:
        InvalidCertificate: the first fault.
    """
    parsed = statement.parse(payload, source=source)
    return parsed, predicate.parse(parsed.predicate, source=f"{source}: predicate")


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
    parsed, said = read_statement(payload, source=f"{source}: statement")
    return Certificate(payload=payload, statement=parsed, predicate=said, keyid=key.fingerprint)


def read_unverified(path: Path) -> Statement:
    """What the certificate or the unsigned statement at ``path`` says.  No signature is checked.

    Raises:
        InputError: unreadable, or named otherwise.
        InvalidCertificate: the first fault.
    """
    if path == store.bundle_path(path):
        data = store.read_limited(path, limit=bundle.BUNDLE_LIMIT)
        payload = bundle.read_bundle(data, source=path.name).envelope.payload
    else:
        payload = store.read_limited(path, limit=STATEMENT_LIMIT)
    return read_statement(payload, source=path.name)[0]


def subjects_of(files: Iterable[Path]) -> tuple[Subject, ...]:
    """A subject per file, by its plain name; the order does not matter."""
    return tuple(Subject(name=path.name, sha256=sha256_file(path)) for path in files)


def check_subjects(subjects: Sequence[Subject], folder: Path) -> dict[str, Stamp]:
    """Which files they were, by name, if the evidence ``folder`` holds exactly what ``subjects`` name, by digest.

    A file that is not named is refused too: nobody signed it, and a reader might take it for evidence.

    Raises:
        InvalidCertificate: a file missing, too many, a symbolic link, other than what was signed, or all of them
            together larger than :data:`samebits.certificate.store.EVIDENCE_LIMIT`; sizes are asked before any is read.
    """
    paths = {subject: store.subject_file(folder, subject.name) for subject in subjects}
    names = {subject.name for subject in subjects}
    # All subjects are there, so that among one more file than subjects there is one that nobody named.
    for path in sorted(itertools.islice(folder.iterdir(), len(names) + 1)):
        if path.name not in names:
            raise invalid(str(path), found="a file that the statement does not name", accepted=", ".join(sorted(names)))
    stamps: dict[str, Stamp] = {}
    try:
        size = sum(store.size_of(path) for path in paths.values())
        if size > store.EVIDENCE_LIMIT:
            raise invalid(str(folder), found=f"{size} bytes", accepted=f"at most {store.EVIDENCE_LIMIT} bytes")
        for subject, path in paths.items():
            found, stamps[subject.name] = store.hash_limited(path, limit=store.EVIDENCE_LIMIT)
            if found != subject.sha256:
                raise invalid(
                    str(path), found=f"sha256 {found}", accepted=f"sha256 {subject.sha256}, as in the statement"
                )
    except InputError as error:
        raise invalid(error.field, found=error.found, accepted=error.accepted) from None
    except OSError as error:
        raise invalid(str(folder), found=str(error.strerror).lower(), accepted="readable files") from None
    return stamps


def check_unchanged(stamps: Mapping[str, Stamp], folder: Path) -> None:
    """Nothing if the files of ``folder`` are still those that :func:`check_subjects` has hashed.

    Raises:
        InvalidCertificate: one was replaced or written to since.
    """
    for name, stamp in stamps.items():
        path = folder / name
        try:
            found = store.stamp_of(path.lstat())
        except OSError as error:
            raise invalid(str(path), found=str(error.strerror).lower(), accepted="the file that was hashed") from None
        if found != stamp:
            raise invalid(str(path), found="a file that changed while it was read", accepted="the file that was hashed")
