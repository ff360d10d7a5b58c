"""The in-toto Statement v1 that a certificate signs: which files, and what is said about them.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md.  That specification lets a reader skip keys it
does not know; this one refuses them, since every key of our predicate type is ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from samebits.certificate import strict_json
from samebits.certificate.strict_json import array, closed_object, invalid, quoted, string

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:samebits:certificate:v1"
STATEMENT_LIMIT: Final = 4 * 1024 * 1024
"""Bytes.  What is large belongs into the evidence, which the statement names by digest."""
SUBJECT_LIMIT: Final = 1000

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """One file that the statement is about."""

    name: str
    """A plain file name, so that no certificate can point outside its evidence folder."""
    sha256: str
    """Lower-case hex."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A parsed statement.  What was signed are its bytes; they are kept beside it, never made again from it."""

    subjects: tuple[Subject, ...]
    predicate: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-ready object; :func:`parse` gives the same statement back."""
        return {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": subject.name, "digest": {"sha256": subject.sha256}} for subject in self.subjects],
            "predicateType": PREDICATE_TYPE,
            "predicate": dict(self.predicate),
        }


def write(subjects: Sequence[Subject], predicate: Mapping[str, Any]) -> bytes:
    """The bytes of a statement, ready to be signed: subjects sorted by name.

    Raises:
        InvalidCertificate: whatever :func:`parse` would refuse.
        TypeError, ValueError: the predicate holds what strict JSON has no place for.
    """
    ordered = tuple(sorted(subjects, key=lambda subject: subject.name))
    data = strict_json.dumps(Statement(subjects=ordered, predicate=predicate).to_dict())
    parse(data)
    return data


def parse(data: bytes, *, source: str = "statement") -> Statement:
    """The statement in ``data``, closed at every level but the predicate's own.

    Raises:
        InvalidCertificate: not strict JSON, another statement or predicate type, unknown or missing keys, a subject
            that is no plain file name, is named twice, or has no sha256.
    """
    value = strict_json.loads(data, source=source, limit=STATEMENT_LIMIT)
    fields = closed_object(value, source, ("_type", "subject", "predicateType", "predicate"))
    where = f"{source}: "
    for key, accepted in (("_type", STATEMENT_TYPE), ("predicateType", PREDICATE_TYPE)):
        found = string(fields[key], where + key)
        if found != accepted:
            raise invalid(where + key, found=quoted(found), accepted=accepted)
    subjects = _subjects(array(fields["subject"], f"{where}subject"), f"{where}subject")
    predicate = fields["predicate"]
    if not isinstance(predicate, dict):
        raise invalid(f"{where}predicate", found=strict_json.kind(predicate), accepted="an object")
    return Statement(subjects=subjects, predicate=predicate)


def _subjects(values: list[Any], where: str) -> tuple[Subject, ...]:
    if not 1 <= len(values) <= SUBJECT_LIMIT:
        raise invalid(where, found=f"{len(values)} subjects", accepted=f"1 to {SUBJECT_LIMIT}")
    subjects = [_subject(value, f"{where}[{index}]") for index, value in enumerate(values)]
    seen: set[str] = set()
    for index, subject in enumerate(subjects):
        # Case folded: the evidence may be unpacked where Tokens.parquet and tokens.parquet are one file.
        if subject.name.lower() in seen:
            raise invalid(f"{where}[{index}].name", found=f"{subject.name!r} again", accepted="each name once")
        seen.add(subject.name.lower())
    return tuple(subjects)


def _subject(value: Any, where: str) -> Subject:
    fields = closed_object(value, where, ("name", "digest"))
    digest = closed_object(fields["digest"], f"{where}.digest", ("sha256",))
    name = string(fields["name"], f"{where}.name")
    if not _PLAIN_NAME.fullmatch(name) or ".." in name:
        accepted = "a plain file name: letters, digits, '.', '_' and '-', no leading dot or dash, no '..'"
        raise invalid(f"{where}.name", found=quoted(name), accepted=accepted)
    sha256 = string(digest["sha256"], f"{where}.digest.sha256")
    if not _SHA256.fullmatch(sha256):
        raise invalid(f"{where}.digest.sha256", found=quoted(sha256), accepted="64 lower-case hex digits")
    return Subject(name=name, sha256=sha256)
