"""``samebits certify``: the main job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from samebits import certificate, pins, recipe
from samebits.certify import run as run_room
from samebits.certify.order import Order
from samebits.cli.container import FOLDER, certify_in_image
from samebits.cli.output import console, print_json, print_signed
from samebits.cli.reporter import ConsoleReporter
from samebits.cli.stack import stack_launcher
from samebits.cli.summary import findings_view
from samebits.errors import InputError

AUTO = "auto"
EXIT_CODE = {"passed": 0, "failed": 1, "vacuous": 1, "over_budget": 1, "refused": 2}


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(name="certify")(certify)


def certify(
    recipes: Annotated[
        list[str] | None, typer.Argument(help="Recipes by id (samebits doctor lists them) or by path.")
    ] = None,
    row: Annotated[str, typer.Option(help="Row of the matrix, or 'auto': the one this machine can run.")] = "auto",
    family: Annotated[
        str | None, typer.Option(help="Instead of naming recipes: all of this model family (dense, ds4) on the row.")
    ] = None,
    actor: Annotated[
        str | None,
        typer.Option(help="Take the recipes' variants with this kind of actor: native, megatron."),
    ] = None,
    stack: Annotated[
        Path | None,
        typer.Option(help="Python interpreter that holds the row's stack, where the row has one of its own."),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder for run folders.")] = Path("runs"),
    run_id: Annotated[str | None, typer.Option(help="Name of the run's folder (one recipe only).")] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the unfinished run in this folder.")] = None,
    container: Annotated[
        bool, typer.Option("--container", help="In the row's image, built before: nox -s images -- ROW.")
    ] = False,
    split: Annotated[
        bool, typer.Option("--split", help="As --container, each engine and each actor in a container of its own.")
    ] = False,
    images: Annotated[Path, typer.Option(help="Folder of the images' records.")] = FOLDER,
    unsigned: Annotated[bool, typer.Option("--unsigned", help="Do not sign; 'samebits sign RUN' can later.")] = False,
    key: Annotated[Path | None, typer.Option(help="Private key (PEM). Default: your own, made on first use.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")] = False,
) -> None:
    """Run a certification: rollout, recompute and training forward, bit for bit, over at least ten refits.

    Each recipe is one run and one certificate. For every generated token the raw logprob of all three computations is
    compared as an fp32 bit pattern. The verdict is derived from the evidence in the run's folder, now and whenever
    somebody verifies the certificate. Interrupted runs continue with --resume FOLDER.
    """
    if family is not None and not recipes:
        recipes = _of_family(family, row)
    if actor is not None:
        recipes = [recipe.with_actor(name, actor) for name in recipes or []]
    orders = _orders(recipes or [], row, resume, run_id, fresh=container or split)
    # Before the run: a key that cannot be used would be found out at its very end.
    key_created = False if unsigned else certificate.require_key(key)
    results = []
    with ConsoleReporter() as reporter:
        for asked, reason in orders:
            reporter.line(f"recipe {asked.recipe.id}: {asked.recipe.title}")
            reporter.line(f"row    {asked.row.id}: {reason}")
            for other, needs in pins.elsewhere(asked.recipe.model.family):
                reporter.line(f"row    {other}: not here: {needs}")
            # Inside an image we are told which.
            order = replace(asked, image=pins.image.here())
            if container or split:
                finished = certify_in_image(
                    order, split=split, runs=runs, run_id=run_id, images=images, reporter=reporter
                )
            else:
                if not (resume and run_room.is_measured(resume)):
                    pins.require_hardware(order.row)
                    order = replace(order, launcher=stack_launcher(order.row, stack, reporter))
                finished = (
                    run_room.resume(order, resume, reporter=reporter)
                    if resume
                    else run_room.start(order, runs=runs, run_id=run_id, reporter=reporter)
                )
            signed = None if unsigned else replace(certificate.sign_run(finished.path, key), key_created=key_created)
            results.append((order, finished, signed))
            reporter.line(f"{order.recipe.id}: {finished.findings.verdict} in {finished.seconds:.0f} s")
    if json:
        print_json({"runs": [_as_json(*result) for result in results]})
    else:
        for order, finished, signed in results:
            console.print()
            console.print(
                findings_view(
                    finished.findings.to_dict(), title=f"{order.recipe.id} on {order.row.id}", seconds=finished.seconds
                )
            )
            if signed is None:
                console.print(f"unsigned statement  {finished.statement}", soft_wrap=True)
                continue
            print_signed(signed)
    raise typer.Exit(max(EXIT_CODE[finished.findings.verdict] for _, finished, _ in results))


def _of_family(family: str, row_name: str) -> list[str]:
    """Recipes of ``family`` for the row, or those for the best row of this machine.

    Raises:
        InputError: there are none.
    """
    loaded = {name: recipe.load(name)[0] for name in recipe.known()}
    # What goes past a gate on purpose is certified by name only.
    of_family = {name: one for name, one in loaded.items() if one.model.family == family and not one.past_the_gate}
    rows = [row for one in of_family.values() for row in one.rows]
    if row_name != AUTO:
        chosen = pins.load(row_name)[0].id
    else:
        chosen = pins.choose(None, list(dict.fromkeys(rows)))[0].id if rows else row_name
    names = [name for name, one in of_family.items() if chosen in one.rows]
    if not names:
        raise InputError(
            "--family",
            found=f"{family} on row {chosen}: no recipe",
            accepted=", ".join(sorted({one.model.family for one in loaded.values()})),
            next_step="Name recipes instead, or choose another row.",
        )
    return names


def _orders(
    names: list[str],
    row_name: str,
    resume: Path | None,
    run_id: str | None,
    *,
    fresh: bool,
) -> list[tuple[Order, str]]:
    if resume and fresh:
        raise InputError(
            "--resume",
            found="with --container or --split",
            accepted="one of them",
            next_step="A run in a container cannot be continued: start a new one.",
        )
    if resume:
        evidence = resume / "certificate.evidence"
        names, row_name = [str(evidence / "recipe.toml")], str(evidence / "row.toml")
    if not names:
        raise InputError(
            "RECIPES",
            found="none",
            accepted=", ".join(recipe.known()),
            next_step="Name at least one, for instance: samebits certify dense-smollm2",
        )
    if run_id is not None and len(names) > 1:
        raise InputError(
            "--run-id",
            found=f"one id for {len(names)} recipes",
            accepted="one recipe",
            next_step="Certify them one by one.",
        )
    orders = []
    for name in names:
        loaded, recipe_bytes = recipe.load(name)
        chosen, row_bytes, reason = pins.choose(None if row_name == AUTO else row_name, loaded.rows)
        orders.append(
            (
                Order(recipe=loaded, recipe_file=recipe_bytes, row=chosen, row_file=row_bytes),
                reason,
            )
        )
    return orders


def _as_json(order: Order, finished: run_room.Finished, signed: certificate.Signed | None) -> dict[str, Any]:
    return {
        "recipe": order.recipe.id,
        "row": order.row.id,
        "run": str(finished.path),
        "seconds": f"{finished.seconds:.1f}",
        "statement": str(finished.statement),
        "certificate": str(signed.certificate) if signed else None,
        "findings": finished.findings.to_dict(),
    }
