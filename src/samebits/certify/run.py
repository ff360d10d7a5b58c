"""A certification from start to finish: open the folder, walk the phases, judge, write the statement."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from samebits import certificate, pins
from samebits.certify import folder, image, refusal, statement
from samebits.certify.clock import Clock
from samebits.certify.folder import Manifest, RunFolder
from samebits.certify.order import Order
from samebits.certify.phases import measure
from samebits.certify.reporter import Reporter
from samebits.environment import describe
from samebits.errors import InputError
from samebits.oracle import EvidenceWriter, Findings, judge
from samebits.spool import reaping


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """A run that reached its end, whatever it found."""

    path: Path
    statement: Path
    findings: Findings
    seconds: float
    """Of this process; a resumed run's earlier part is not in it."""


def start(order: Order, *, runs: Path, run_id: str | None, reporter: Reporter) -> Finished:
    """Certify in a new folder under ``runs``.

    Raises:
        SamebitsError: bad input or refused by the gate (exit code 2), or a worker or the machine failed (3).
    """
    now = dt.datetime.now(dt.UTC)
    name = f"{now:%Y%m%dT%H%M%SZ}-{order.recipe.id}" if run_id is None else _run_id(run_id)
    manifest = Manifest(
        run_id=name,
        recipe=order.recipe.id,
        recipe_sha256=order.recipe_sha256,
        row=order.row.id,
        row_sha256=order.row_sha256,
        kit_sha256=pins.kit_sha256(),
        started_on=statement.now(),
    )
    with folder.create(runs / name, manifest) as run:
        (run.evidence / "recipe.toml").write_bytes(order.recipe_file)
        (run.evidence / "row.toml").write_bytes(order.row_file)
        image.enter(order, run.evidence)
        return _execute(order, run, reporter)


def resume(order: Order, path: Path, *, reporter: Reporter) -> Finished:
    """Continue the unfinished run in the folder ``path``.

    Raises:
        InputError: the kit is no longer the one that the run began with, or the folder holds no run.

    A run that has measured everything is judged by whatever kit is here, on any machine: so will every verifier do.
    """
    with folder.reopen(path) as run:
        began = run.manifest
        for what, before, now in (
            ("recipe", began.recipe_sha256, order.recipe_sha256),
            ("row", began.row_sha256, order.row_sha256),
            ("kit", began.kit_sha256, pins.kit_sha256()),
        ):
            if before != now and not (what == "kit" and run.is_done("measured")):
                raise InputError(
                    f"{path}: {what}",
                    found=f"sha256 {now}",
                    accepted=f"{before}, with which the run began",
                    next_step="Restore it, or start a new run.",
                )
        if not run.is_done("measured"):
            image.require_same(order, run.evidence)
        if not run.is_done("measured"):
            began.resumed = True
            run.save()
        return _execute(order, run, reporter)


def _execute(order: Order, run: RunFolder, reporter: Reporter) -> Finished:
    clock = Clock("parent", -1)
    with reaping(), clock.phase("run", "parent"):
        if run.is_done("judged"):
            # Its parts are gone, or going: the evidence is what was signed or will be, and stays as it is.
            said = certificate.read_unverified(run.statement)
            certificate.check_subjects(said.subjects, run.evidence)
            findings = judge(run.evidence, order.recipe)
        else:
            findings = _measured_and_judged(order, run, reporter)
        for leftover in ("spool", "parts"):
            shutil.rmtree(run.path / leftover, ignore_errors=True)
        run.exchange.unlink(missing_ok=True)
    return Finished(path=run.path, statement=run.statement, findings=findings, seconds=clock.seconds("run"))


def _measured_and_judged(order: Order, run: RunFolder, reporter: Reporter) -> Findings:
    run.check_parts()
    if not run.is_done("measured"):
        found = pins.require(order.row, launcher=order.launcher)
        run.finish(
            "surveyed",
            computing=[asdict(one) for one in found.computing],
            limitations=[
                *pins.limitations(order.row, pins.look()),
                *(finding.limitation for finding in found.findings if finding.limitation),
                *image.limitations(order),
            ],
            environment=describe(),
            images=[one.model_dump(exclude_unset=True) for one in image.resources(order)],
        )
        (measure if order.recipe.refusal is None else refusal.record)(order, run, reporter)
        # A clock that was set back must not leave a run that ends before it began: no certificate can say that.
        run.finish("measured", on=max(statement.now(), run.manifest.started_on))
    reporter.live("assembling the evidence and judging it")
    EvidenceWriter(run.evidence, run.parts).assemble()
    findings = judge(run.evidence, order.recipe)
    statement.write(order, run, findings)
    run.finish("judged", verdict=findings.verdict)
    return findings


def is_measured(path: Path) -> bool:
    """Whether the run in folder ``path`` has only to be judged: then no worker of it will start again."""
    return "measured" in folder.read_manifest(path).phases


def _run_id(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", text) or ".." in text:
        raise InputError(
            "--run-id",
            found=repr(text[:128]),
            accepted="1 to 128 letters, digits, '.', '_' and '-', the first a letter or digit, no '..'",
            next_step="Choose a plain name; --runs says where its folder is made.",
        )
    return text
