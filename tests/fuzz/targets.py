"""Every reader that is fuzzed.  A new one is one line here."""

from __future__ import annotations

from typing import Final

from fuzz import documents, evidence, messages
from fuzz.target import Target

TARGETS: Final[dict[str, type[Target]]] = {
    target.name: target
    for target in (
        documents.Certificate,
        documents.Statement,
        documents.Recipe,
        documents.Row,
        documents.Revoked,
        messages.Spool,
        messages.Sampling,
        messages.Http,
        evidence.Damaged,
        evidence.Edited,
    )
}
