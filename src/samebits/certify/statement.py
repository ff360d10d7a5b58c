"""The unsigned statement of a finished run: the oracle's findings, and what the producer attests around them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

from samebits import __version__, certificate, pins
from samebits.certificate import Kit, Material, Predicate, Resource, Run
from samebits.certify.arm import Arm, ArmName
from samebits.certify.folder import RunFolder
from samebits.certify.order import Order
from samebits.certify.round import Rows
from samebits.environment import describe
from samebits.oracle import Findings, fact_rows
from samebits.recipe import Recipe

TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
SCOPE: Final = (
    "Compares the raw logprob of each sampled token, one vocabulary coordinate a position, not whole distributions.",
    "Holds for the prompts, batches and machine of this run.",
)


def facts(arms: Mapping[ArmName, Arm]) -> Rows:
    """Rows of the ``facts`` table: what each worker said of itself once built."""
    rows: list[dict[str, Any]] = []
    for arm in arms.values():
        rows += fact_rows(arm.name, "engine", arm.engine_built)
        rows += fact_rows(arm.name, "actor", arm.actor_built)
    return {"facts": rows}


def write(order: Order, run: RunFolder, findings: Findings) -> None:
    """Write the statement into the run's folder, atomically."""
    manifest = run.manifest
    prepared = manifest.phases["construct"]["prepared"]
    said = Predicate(
        row=Material(id=order.row.id, sha256=order.row_sha256),
        recipe=Material(id=order.recipe.id, sha256=order.recipe_sha256),
        kit=Kit(version=__version__, sha256=manifest.kit_sha256),
        configuration=[*_weights(order.recipe, prepared), *_torch(order.row)],
        environment=describe(),
        run=Run(
            id=manifest.run_id,
            startedOn=manifest.started_on,
            finishedOn=manifest.phases["measured"]["on"],
            producer=f"samebits {__version__}",
            resumed=manifest.resumed,
        ),
        seeds={"model": str(order.recipe.model.seed), "workload": str(order.recipe.workload.seed)},
        reproduces=None,
        limitations=[*SCOPE, *_limitations(order)],
        findings=findings.to_dict(),
    )
    subjects = certificate.subjects_of(sorted(run.evidence.iterdir()))
    certificate.write_atomic(run.statement, certificate.write_statement(subjects, said))


def _weights(recipe: Recipe, prepared: Mapping[str, Any]) -> list[Resource]:
    return [
        Resource(name=f"model/{name}", digest={"sha256": digest}, annotations={"source": recipe.model.source})
        for name, digest in sorted(prepared["files"].items())
    ]


def _torch(row: pins.Row) -> list[Resource]:
    """The build that computes, by the content of its installed files and by the wheel that holds them."""
    build = pins.torch_build(row)
    if build is None:
        return []
    return [
        Resource(
            name="torch",
            digest={"sha256": build.wheel_sha256},
            annotations={
                "version": build.version,
                "python": build.python,
                "platform": build.platform,
                "installedContentSha256": build.content_sha256,
            },
        ),
    ]


def _limitations(order: Order) -> Sequence[str]:
    return pins.limitations(order.row, pins.look())


def now() -> str:
    """The present second, RFC 3339 in UTC."""
    return dt.datetime.now(dt.UTC).strftime(TIME)
