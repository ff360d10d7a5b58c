"""Keys and certificates that are no longer to be believed: ``revoked.toml``.

.. code-block:: toml

    [[revoked]]
    keyid = "<fingerprint of the key>"           # or certificateSha256 = "<sha256 of the statement>"
    reason = "the laptop was stolen"
    date = 2026-11-30

A revoked key takes all of its certificates with it, whatever date they bear: the time of a signature is only attested.
"""
# ruff: noqa: N815 -- fields are named as they stand in the file

from __future__ import annotations

import datetime as dt
from pathlib import Path

from pydantic import Field, model_validator

from samebits.certificate.predicate import Sha256, Text
from samebits.schema import Closed, load_toml


class Revocation(Closed):
    """One entry: a key or a certificate, and why."""

    keyid: Sha256 | None = None
    certificateSha256: Sha256 | None = None
    """sha256 of the statement, the bytes that were signed."""
    reason: Text
    date: dt.date

    @model_validator(mode="after")
    def _names_one(self) -> Revocation:
        if (self.keyid is None) == (self.certificateSha256 is None):
            raise ValueError("exactly one of keyid and certificateSha256")
        return self


class Revocations(Closed):
    """All entries of one file."""

    revoked: list[Revocation] = Field(default_factory=list)

    def find(self, *, keyid: str, certificate_sha256: str) -> Revocation | None:
        """The first entry that names the key or the certificate."""
        for entry in self.revoked:
            if entry.keyid == keyid or entry.certificateSha256 == certificate_sha256:
                return entry
        return None


def load_revocations(path: Path) -> Revocations:
    """The entries of the file at ``path``.

    Raises:
        InputError: missing, unreadable or malformed; a list that cannot be read must not read as empty.
    """
    return load_toml(Revocations, path)
