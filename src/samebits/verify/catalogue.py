"""A catalogue of certificates, each with the exit code that verifying it must give.

Failed certifications are signed and published too, so "all of them pass" is not the rule; "each ends as declared" is.

.. code-block:: toml

    [[certificate]]
    path = "cpu/dense-smollm2/first.sigstore.json"   # relative to the catalogue
    key = "keys/release.pub.pem"
    exit_code = 0
    shipped = true   # its recipe and row are files that this kit ships, or an earlier version of it did
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from samebits.certificate import BUNDLE_SUFFIX, Revocations, load_revocations
from samebits.errors import InputError, SamebitsError
from samebits.schema import Closed, load_toml
from samebits.verify.verification import verify

CATALOGUE: Final = "catalogue.toml"
REVOKED: Final = "revoked.toml"


def _inside(text: str) -> str:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or not path.parts or not text.isprintable():
        raise ValueError("a path inside the catalogue's folder")
    return str(path)


RelativePath = Annotated[str, AfterValidator(_inside)]


class Entry(Closed):
    """One certificate."""

    path: RelativePath
    key: RelativePath
    """The public key that this catalogue trusts for it."""
    exit_code: Literal[0, 1, 2]
    shipped: bool = False
    """Whether recipe and row must be the kit's own, of this version or an earlier one; if not, it ends with 2."""


class Catalogue(Closed):
    """``catalogue.toml``."""

    certificate: list[Entry] = Field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How one certificate ended; ``declared`` is None if the catalogue does not name it."""

    path: str
    declared: int | None
    found: int | None
    reason: str

    @property
    def as_declared(self) -> bool:
        return self.declared is not None and self.declared == self.found

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "declared": self.declared,
            "found": self.found,
            "asDeclared": self.as_declared,
            "reason": self.reason,
        }


def verify_catalogue(folder: Path) -> list[Outcome]:
    """Verifies every certificate that the catalogue in ``folder`` names, and lists those that it does not.

    ``revoked.toml`` beside the catalogue is respected.

    Raises:
        InputError: no catalogue, a malformed one, or no certificate at all.
    """
    catalogue = load_toml(Catalogue, folder / CATALOGUE)
    revoked = folder / REVOKED
    revocations = load_revocations(revoked) if revoked.exists() else Revocations()
    outcomes = [_verified(folder, entry, revocations) for entry in catalogue.certificate]
    named = {entry.path for entry in catalogue.certificate}
    for path in sorted(folder.rglob(f"*{BUNDLE_SUFFIX}")):
        relative = path.relative_to(folder).as_posix()
        if relative not in named:
            outcomes.append(
                Outcome(path=relative, declared=None, found=None, reason=f"{CATALOGUE} does not name this certificate")
            )
    if not outcomes:
        raise InputError(
            str(folder),
            found="no certificate",
            accepted="at least one: verifying nothing shows nothing",
            next_step=f"Add a certificate and name it in {CATALOGUE}.",
        )
    return outcomes


def _verified(folder: Path, entry: Entry, revocations: Revocations) -> Outcome:
    try:
        report = verify(folder / entry.path, folder / entry.key, revoked=revocations, require_shipped=entry.shipped)
        found, reason = report.exit_code, "; ".join(report.reasons + report.warnings)
    except SamebitsError as error:
        found, reason = error.exit_code, str(error)
    return Outcome(path=entry.path, declared=entry.exit_code, found=found, reason=reason)
