"""Verification as a state machine: each step trusts only what the steps before it have established.

The order is part of the security argument (the style is python-tuf's ``TrustedMetadataSet``): nothing inside the file
is parsed before the caller's key has checked its signature, no evidence is opened before it has the signed digest, and
the verdict is that of the evidence, never that of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from samebits import recipe as recipes
from samebits import schema
from samebits.certificate import (
    BUNDLE_LIMIT,
    Certificate,
    PublicKey,
    Revocations,
    Stamp,
    check_subjects,
    check_unchanged,
    evidence_folder,
    load_public,
    load_revocations,
    open_certificate,
    read_limited,
)
from samebits.errors import GateError, InputError, InvalidCertificate
from samebits.gate import settings as settings_gate
from samebits.pins import exactly
from samebits.recipe import Recipe
from samebits.verify.claims import claims
from samebits.verify.difference import Difference, differences
from samebits.verify.judges import JUDGES
from samebits.verify.libraries import Libraries, libraries
from samebits.verify.materials import Standing, standing
from samebits.verify.report import Report, Step

RECIPE: Final = "recipe.toml"
ROW: Final = "row.toml"
SOURCE_LIMIT: Final = 1 << 20
"""Bytes of a recipe or row file."""

State = Literal["new", "opened", "complete", "sourced", "judged"]
_NEXT_STEP = "Do not rely on this certificate; ask its signer for a sound one."


class Verification:
    """One certificate on its way from bytes to a believed verdict.  Each method moves it one state on, or raises."""

    def __init__(self, key: PublicKey) -> None:
        self.key = key
        self.state: State = "new"
        self._certificate: Certificate | None = None
        self._folder: Path | None = None
        self._stamps: dict[str, Stamp] = {}
        self._recipe: Recipe | None = None
        self.materials: list[Standing] = []
        self.libraries: Libraries | None = None
        self.findings: dict[str, Any] | None = None
        self.differences: list[Difference] = []

    @property
    def certificate(self) -> Certificate:
        """What the key has signed; from state *opened* on."""
        if self._certificate is None:
            raise RuntimeError("the certificate has not been opened")
        return self._certificate

    def open(self, data: bytes, *, source: str) -> None:
        """1 and 2: signature with the caller's key, then the statement's and the predicate's format.

        Raises:
            InvalidCertificate: the first fault.
        """
        self._require("new")
        self._certificate = open_certificate(data, self.key, source=source)
        self.state = "opened"

    def check_files(self, folder: Path) -> None:
        """3: ``folder`` holds exactly the signed files, each a regular file with the signed sha256.

        Raises:
            InvalidCertificate: one is missing, too many, a link, or has other bytes.
        """
        self._require("opened")
        self._stamps = check_subjects(self.certificate.statement.subjects, folder)
        self._folder = folder
        self.state = "complete"

    def check_sources(self) -> None:
        """3, second half: the copies of recipe and row are the ones that the predicate names, and fit each other.

        Raises:
            InvalidCertificate: a copy is no subject, another digest or id; the recipe is not for this row, or asks for
                what the row's gate refuses; other seeds.
        """
        self._require("complete")
        said = self.certificate.predicate
        for name, material in ((RECIPE, said.recipe), (ROW, said.row)):
            digest = {subject.name: subject.sha256 for subject in self.certificate.statement.subjects}.get(name)
            if digest != material.sha256:
                raise _invalid(
                    f"subject {name}", found=digest or "no such subject", accepted=f"sha256 {material.sha256}"
                )
        found = self._parse_recipe()
        row_id = self._row()["id"]
        self.materials = [
            standing("recipe", said.recipe, self._read(RECIPE)),
            standing("row", said.row, self._read(ROW)),
        ]
        for name, is_id, said_id in ((RECIPE, found.id, said.recipe.id), (ROW, row_id, said.row.id)):
            if is_id != said_id:
                raise _invalid(f"{name}: id", found=repr(is_id), accepted=f"{said_id!r}, as the predicate says")
        if row_id not in found.rows:
            raise _invalid(f"{RECIPE}: rows", found=", ".join(found.rows), accepted=f"a list that has {row_id!r}")
        self._check_gate(found)
        for name, seed in (("model", found.model.seed), ("workload", found.workload.seed)):
            if said.seeds.get(name) != str(seed):
                raise _invalid(f"seeds.{name}", found=said.seeds.get(name), accepted=f"{seed}, as in {RECIPE}")
        self._recipe = found
        self.state = "sourced"

    def judge(self) -> None:
        """4 and 5: the evidence is judged again; the signed findings must be the derived ones, to the last digit.

        Raises:
            InvalidCertificate: the evidence cannot be read or changed meanwhile, or findings differ; ``differences``
                lists each path.
        """
        self._require("sourced")
        assert self._folder is not None  # noqa: S101 - states before this one set them
        assert self._recipe is not None  # noqa: S101
        judge = JUDGES[self.certificate.statement.to_dict()["predicateType"]]
        self.findings = judge(self._folder, self._recipe)
        self.libraries = libraries(self._folder, self._row())
        check_unchanged(self._stamps, self._folder)
        self.differences = list(differences(self.certificate.predicate.findings, self.findings, "findings"))
        if self.differences:
            count = len(self.differences)
            raise _invalid(
                "findings",
                found=f"{count} signed value{'s' if count > 1 else ''} that the evidence does not carry",
                accepted="exactly what the oracle derives from the evidence",
            )
        self.state = "judged"

    def check_revocation(self, revocations: Revocations) -> None:
        """6: neither the key nor the certificate is revoked.

        Raises:
            InvalidCertificate: one is.
        """
        if self.state == "new":
            raise RuntimeError("the certificate has not been opened")
        entry = revocations.find(keyid=self.key.fingerprint, certificate_sha256=self.certificate.sha256)
        if entry is not None:
            what = "its key" if entry.keyid else "this certificate"
            raise _invalid(
                "revoked.toml", found=f"{what} was revoked on {entry.date}: {entry.reason}", accepted="no entry"
            )

    def check_shipped(self) -> None:
        """Asked for only: recipe and row are files that this kit ships, or an earlier version of it shipped.

        Raises:
            InvalidCertificate: one is not, or verification did not get as far as reading it.
        """
        if not self.materials:
            raise RuntimeError("recipe and row have not been read")
        for material in self.materials:
            if not material.is_shipped:
                raise InvalidCertificate(
                    f"{material.kind}.toml",
                    found=str(material),
                    accepted="a file that this kit ships, or an earlier version of it did",
                    next_step="Compare the two files; without the requirement, the certificate stands for its own.",
                )

    def _require(self, state: State) -> None:
        if self.state != state:
            raise RuntimeError(f"verification is in state {self.state!r}; this step follows {state!r}")

    def _read(self, name: str) -> bytes:
        assert self._folder is not None  # noqa: S101 - set by check_files
        return read_limited(self._folder / name, limit=SOURCE_LIMIT)

    def _parse_recipe(self) -> Recipe:
        try:
            return recipes.parse(self._read(RECIPE), source=RECIPE)
        except InputError as error:
            raise _invalid(error.field, found=error.found, accepted=error.accepted) from None

    def _row(self) -> dict[str, Any]:
        # Only id and gate: rows of later kits have other fields, and old certificates must still verify.
        try:
            row = schema.toml(self._read(ROW), source=ROW)
        except InputError as error:
            raise _invalid(error.field, found=error.found, accepted=error.accepted) from None
        if not isinstance(row.get("id"), str):
            raise _invalid(ROW, found="no id in it", accepted="a row file")
        return row

    def _check_gate(self, recipe: Recipe) -> None:
        """The recipe asks for nothing that the row's gate refuses: such a run cannot have been constructed."""
        if recipe.refusal is not None:
            return  # past the gate on purpose: it says how the engine itself refused
        gate = self._row().get("gate")
        for name, settings in (("engine", recipe.engine), ("actor", recipe.actor)):
            table = gate.get(name) if isinstance(gate, dict) else None
            if not isinstance(table, dict):
                raise _invalid(f"{ROW}: gate.{name}", found="nothing", accepted="a table: what the row certifies")
            table = table | _inner(gate, "family", recipe.model.family, name)
            if name == "actor":
                table |= _inner(gate, "actor_kind", recipe.actor.kind)
            else:
                # The oracle fails whatever goes past the gate on purpose; here it must not hide what else is wrong.
                table |= exactly(recipe.past_the_gate)
            try:
                accepted = settings_gate.accepted_from_json(table, where=f"{ROW}: gate.{name}")
                # What neither file names came with a later kit: its default is none of this certificate's business.
                known = accepted.keys() | settings.model_fields_set | {"kind"}
                asked = {field: value for field, value in settings.model_dump().items() if field in known}
                settings_gate.check(asked, accepted, where=f"{RECIPE}: {name}")
            except (InputError, GateError) as error:
                raise _invalid(error.field, found=error.found, accepted=error.accepted) from None


def _inner(gate: Any, *keys: str) -> dict[str, Any]:
    """``[gate.KEY.KEY…]``: what a row certifies of one model family or actor in place of its general rule."""
    table: Any = gate
    for key in keys:
        table = table.get(key, {}) if isinstance(table, dict) else {}
    return table if isinstance(table, dict) else {}


def verify(
    bundle_path: Path,
    public_key: PublicKey | Path,
    evidence_folder: Path | None = None,
    revoked: Revocations | Path | None = None,
    *,
    require_shipped: bool = False,
) -> Report:
    """Verifies the certificate at ``bundle_path`` with the caller's own key.

    The evidence lies beside it (``X.evidence`` of ``X.sigstore.json``) unless ``evidence_folder`` says otherwise.  All
    steps that can still mean something are taken after one has failed, so that the report lists every fault.  With
    ``require_shipped``, a recipe or row that no version of this kit ships is one.

    Raises:
        InputError: the certificate, the key or the revocations cannot be read: nothing was verified.
    """
    key = public_key if isinstance(public_key, PublicKey) else load_public(public_key)
    revocations = load_revocations(revoked) if isinstance(revoked, Path) else revoked or Revocations()
    folder = evidence_folder or _beside(bundle_path)
    verification = Verification(key)
    steps = [
        _attempt("signature and format", lambda: verification.open(_read_bundle(bundle_path), source=bundle_path.name))
    ]
    for name, needs, step in (
        ("files", "opened", lambda: verification.check_files(folder)),
        ("recipe and row", "complete", verification.check_sources),
        ("findings", "sourced", verification.judge),
    ):
        reached = verification.state == needs
        steps.append(_attempt(name, step) if reached else Step(name=name, status="skipped"))
    opened = verification.state != "new"
    steps.append(
        _attempt("revocation", lambda: verification.check_revocation(revocations))
        if opened
        else Step(name="revocation", status="skipped")
    )
    if require_shipped:
        steps.append(
            _attempt("recipe and row as shipped", verification.check_shipped)
            if verification.materials
            else Step(name="recipe and row as shipped", status="skipped")
        )
    return Report(
        source=bundle_path.name,
        steps=steps,
        keyid=key.fingerprint,
        certificate_sha256=verification.certificate.sha256 if opened else None,
        claims=claims(verification.certificate, verification.findings, verification.materials, verification.libraries)
        if opened and verification.findings
        else [],
        materials=verification.materials,
        libraries=verification.libraries,
        differences=verification.differences,
        findings=verification.findings,
        predicate=dict(verification.certificate.statement.predicate) if opened else None,
    )


def _attempt(name: str, step: Callable[[], None]) -> Step:
    try:
        step()
    except InvalidCertificate as error:
        return Step(name=name, status="failed", detail=str(error))
    return Step(name=name, status="passed")


def _read_bundle(path: Path) -> bytes:
    return read_limited(path, limit=BUNDLE_LIMIT)


def _beside(path: Path) -> Path:
    return evidence_folder(path)


def _invalid(field: str, *, found: object, accepted: object) -> InvalidCertificate:
    return InvalidCertificate(field, found=found, accepted=accepted, next_step=_NEXT_STEP)
