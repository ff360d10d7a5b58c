"""What verification tells a reader: whether to believe the file, what it says, and on whose word each part rests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from samebits.verify.difference import Difference
from samebits.verify.libraries import Libraries
from samebits.verify.materials import Standing

Basis = Literal["derived", "attested"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One thing that the certificate says.

    *derived*: computed here, from files whose digests were signed.  *attested*: the signer's word.
    """

    name: str
    basis: Basis
    text: str

    def to_dict(self) -> dict[str, str]:
        return {"name": self.name, "basis": self.basis, "text": self.text}


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step of the verification, in order; *skipped* if an earlier one left nothing to check."""

    name: str
    status: Literal["passed", "failed", "skipped"]
    detail: str = ""

    def to_dict(self) -> dict[str, str]:
        return {"name": self.name, "status": self.status, "detail": self.detail}


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The outcome.  ``findings`` are always the derived ones, None if verification did not get there."""

    source: str
    steps: list[Step]
    keyid: str
    certificate_sha256: str | None = None
    claims: list[Claim] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    findings: dict[str, Any] | None = None
    materials: list[Standing] = field(default_factory=list)
    """Recipe and row, if verification got as far as reading them."""
    libraries: Libraries | None = None
    predicate: dict[str, Any] | None = None
    """What was signed, once the signature has been checked."""

    @property
    def valid(self) -> bool:
        """Whether every step passed."""
        return all(step.status == "passed" for step in self.steps)

    @property
    def verdict(self) -> str:
        """The derived verdict of a valid certificate, else *invalid*."""
        return str(self.findings["verdict"]) if self.valid and self.findings else "invalid"

    @property
    def reasons(self) -> list[str]:
        """Why it is not valid, or why a valid one did not pass."""
        if not self.valid:
            wrong = [step.detail for step in self.steps if step.status == "failed"]
            return wrong + [str(difference) for difference in self.differences]
        return list(self.findings["reasons"]) if self.findings else []

    @property
    def warnings(self) -> list[str]:
        """What no verdict depends on and every reader should see: recipe, row or libraries other than expected."""
        found = [str(material) for material in self.materials if not material.is_shipped]
        if self.libraries is not None and self.libraries.otherwise:
            found.append(f"libraries are {self.libraries}")
        return found

    @property
    def exit_code(self) -> int:
        """0 valid and passed, 1 valid and not passed, 2 invalid."""
        if not self.valid:
            return 2
        return 0 if self.verdict == "passed" else 1

    def to_dict(self) -> dict[str, Any]:
        """As a JSON-ready object."""
        return {
            "source": self.source,
            "valid": self.valid,
            "verdict": self.verdict,
            "exitCode": self.exit_code,
            "reasons": self.reasons,
            "warnings": self.warnings,
            "keyid": self.keyid,
            "certificateSha256": self.certificate_sha256,
            "steps": [step.to_dict() for step in self.steps],
            "materials": [material.to_dict() for material in self.materials],
            "claims": [claim.to_dict() for claim in self.claims],
            "differences": [difference.to_dict() for difference in self.differences],
            "findings": self.findings,
        }
