"""The unsigned statement of a finished run: the oracle's findings, and what the producer attests around them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from samebits import __version__, certificate
from samebits.certificate import Kit, Material, Predicate, Resource, Run
from samebits.certify.arm import Arm, ArmName
from samebits.certify.folder import RunFolder
from samebits.certify.order import Order
from samebits.certify.round import Rows
from samebits.oracle import Findings, fact_rows
from samebits.recipe import Recipe

TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
SCOPE: Final = (
    "Compares the raw logprob of each sampled token, one vocabulary coordinate a position, not whole distributions.",
    "Holds for the prompts, batches and machine of this run.",
)

OF_A_REFUSAL: Final = (
    "Says how the engine itself refused to be built or to run on a model; nothing was computed or compared.",
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
    prepared, surveyed = manifest.phases["construct"]["prepared"], manifest.phases["surveyed"]
    libraries = manifest.phases.get("libraries", {"libraries": {}})["libraries"]
    said = Predicate(
        row=Material(id=order.row.id, sha256=order.row_sha256),
        recipe=Material(id=order.recipe.id, sha256=order.recipe_sha256),
        kit=Kit(version=__version__, sha256=manifest.kit_sha256),
        configuration=[
            *_weights(order.recipe, prepared),
            *_computing(surveyed),
            *_loaded(libraries),
            *(Resource(**one) for one in surveyed["images"]),
        ],
        environment=surveyed["environment"],
        run=Run(
            id=manifest.run_id,
            startedOn=manifest.started_on,
            finishedOn=manifest.phases["measured"]["on"],
            producer=f"samebits {__version__}",
            resumed=manifest.resumed,
        ),
        seeds={"model": str(order.recipe.model.seed), "workload": str(order.recipe.workload.seed)},
        reproduces=None,
        limitations=[*(SCOPE if order.recipe.refusal is None else OF_A_REFUSAL), *surveyed["limitations"]],
        findings=findings.to_dict(),
    )
    subjects = certificate.subjects_of(sorted(run.evidence.iterdir()))
    certificate.write_atomic(run.statement, certificate.write_statement(subjects, said))


def _weights(recipe: Recipe, prepared: Mapping[str, Any]) -> list[Resource]:
    return [
        Resource(name=f"model/{name}", digest={"sha256": digest}, annotations={"source": recipe.model.source})
        for name, digest in sorted(prepared["files"].items())
    ]


def _computing(surveyed: Mapping[str, Any]) -> list[Resource]:
    """The builds that compute, by the wheel that holds them and the content of the installed files."""
    return [
        Resource(name=one["name"], digest={"sha256": one["sha256"]}, annotations=one["annotations"])
        for one in surveyed["computing"]
    ]


def _loaded(libraries: Mapping[str, Mapping[str, str]]) -> list[Resource]:
    """Each kernel library in use at the end of the run, once, with the workers that had loaded it."""
    workers: dict[tuple[str, str], list[str]] = {}
    for worker, loaded in libraries.items():
        for name, digest in loaded.items():
            workers.setdefault((name, digest), []).append(worker)
    return [
        Resource(name=f"loaded/{name}", digest={"sha256": digest}, annotations={"workers": ", ".join(sides)})
        for (name, digest), sides in sorted(workers.items())
    ]


def now() -> str:
    """The present second, RFC 3339 in UTC."""
    return dt.datetime.now(dt.UTC).strftime(TIME)
