"""The claims of a certificate, each marked by what it rests on."""

from __future__ import annotations

from typing import Any

from samebits.certificate import Certificate
from samebits.verify.libraries import Libraries
from samebits.verify.materials import Standing
from samebits.verify.report import Claim


def claims(
    certificate: Certificate, findings: dict[str, Any], materials: list[Standing], libraries: Libraries | None
) -> list[Claim]:
    """What was derived first: the files, then every check of the oracle; then what the signer attests."""
    said = certificate.predicate
    run = said.run
    return [
        Claim(name="signature", basis="derived", text=f"by key {certificate.keyid}"),
        Claim(
            name="files", basis="derived", text=f"{len(certificate.statement.subjects)} files with the signed sha256"
        ),
        Claim(name="recipe", basis="derived", text=f"{said.recipe.id}, sha256 {said.recipe.sha256}"),
        Claim(name="row", basis="derived", text=f"{said.row.id}, sha256 {said.row.sha256}"),
        *(Claim(name=f"{one.kind} as shipped", basis="derived", text=str(one)) for one in materials),
        *(
            Claim(name=check["name"], basis=check["basis"], text=f"{check['status']}: {check['detail']}")
            for check in findings["checks"]
        ),
        Claim(name="ran on the row", basis="attested", text=f"{said.row.id} was what was installed"),
        Claim(name="kit", basis="attested", text=f"samebits {said.kit.version}, sha256 {said.kit.sha256}"),
        Claim(
            name="configuration", basis="attested", text=", ".join(part.name for part in said.configuration) or "none"
        ),
        *([Claim(name="libraries", basis="attested", text=str(libraries))] if libraries is not None else []),
        Claim(name="environment", basis="attested", text=_environment(said.environment)),
        Claim(name="run", basis="attested", text=f"{run.id}, {run.startedOn} to {run.finishedOn}, by {run.producer}"),
        Claim(name="resumed", basis="attested", text="yes" if run.resumed else "no"),
        Claim(name="seeds", basis="attested", text=", ".join(f"{name} {seed}" for name, seed in said.seeds.items())),
        *(Claim(name="limitation", basis="attested", text=text) for text in said.limitations),
    ]


def _environment(environment: dict[str, str | list[str]]) -> str:
    return "; ".join(
        f"{name} {value if isinstance(value, str) else ', '.join(value)}" for name, value in sorted(environment.items())
    )
