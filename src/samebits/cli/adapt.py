"""``samebits adapt``: a framework's configuration, held against a row."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from samebits import pins
from samebits.cli.output import console, print_json, styled, table
from samebits.errors import GateError, MachineError

if TYPE_CHECKING:
    from samebits.adapters import Adapted, Outcome, Refused


class Framework(StrEnum):
    """Whose configuration it is."""

    NEMO_RL = "nemo-rl"
    VERL = "verl"


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(name="adapt")(adapt)


def adapt(
    framework: Annotated[Framework, typer.Argument(help="Whose configuration it is.")],
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="NeMo RL's YAML file, or verl's, composed.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Overrides, as on the framework's own command line."),
    ] = None,
    row: Annotated[str, typer.Option(help="Row of the matrix whose engine is vLLM, by id or path.")] = "h200-vllm-0.26",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say whether a NeMo RL or verl configuration is one that a row certifies, or list all that stands in the way.

    Reads the file as the framework does: NeMo RL's with its parents ('defaults'), interpolations and overrides; verl's
    as Hydra composed it ('python -m verl.trainer.main_ppo … --cfg job > composed.yaml'). The switch itself is a typed
    field: '++policy.generation.vllm_cfg.batch_invariant=true' in NeMo RL, 'rollout.full_determinism' in verl. What
    nobody has looked at is refused. Exit code: 0 and the engine's arguments, the workers' environment and each
    request's sampling parameters; or 2 and every conflict, with the file and field that cause it.
    """
    outcome = _adapter(framework)(config, pins.load(row)[0], overrides or [])
    refused = not outcome.to_dict()["accepted"]
    if json:
        print_json(outcome.to_dict())
    else:
        _show(outcome)
    raise typer.Exit(2 if refused else 0)


def _adapter(framework: Framework) -> Callable[..., Outcome]:
    try:
        from samebits import adapters  # noqa: PLC0415  # OmegaConf is an extra, and no other command needs it
    except ModuleNotFoundError as error:
        raise MachineError(
            error.name or "omegaconf",
            found="not installed",
            accepted="OmegaConf 2.3 or newer, which both frameworks keep their configuration in",
            next_step="Install it: pip install 'samebits[adapt]', or pip install omegaconf",
        ) from None
    return adapters.nemo_rl if framework is Framework.NEMO_RL else adapters.verl


def _show(outcome: Outcome) -> None:
    from samebits.adapters import Adapted  # noqa: PLC0415  # as above; it is there by now

    if isinstance(outcome, Adapted):
        _show_adapted(outcome)
    else:
        _show_refused(outcome)


def _show_refused(refused: Refused) -> None:
    """By file, since that is how they are mended; four columns would not fit a terminal."""
    files: dict[str, list[tuple[str, GateError]]] = {}
    for conflict in refused.conflicts:
        file, _, field = conflict.field.partition(": ")
        files.setdefault(file, []).append((field, conflict))
    for file, conflicts in files.items():
        console.print(f"[bold]{escape(file)}[/]", soft_wrap=True)
        for field, conflict in conflicts:
            console.print(f"  {escape(field)}", style="yellow", soft_wrap=True)
            shown = table("", "")
            shown.show_header = False
            shown.add_row("    found", escape(conflict.found))
            shown.add_row("    accepted", escape(conflict.accepted))
            shown.add_row("    next", escape(conflict.next_step))
            console.print(shown)
        console.print()
    many = len(refused.conflicts)
    console.print(f"{refused.framework} on row {refused.row}: {styled('refused')}, {many} conflict{'s'[: many > 1]}")


def _show_adapted(adapted: Adapted) -> None:
    arguments = table("argument of vllm.LLM", "value")
    _rows(arguments, adapted.arguments)
    environment = table("environment of the workers", "value")
    _rows(environment, adapted.environment)
    sampling = table("each request", "value")
    _rows(sampling, adapted.sampling)
    sampling.add_row("seed", "of its own")
    for shown in (arguments, environment, sampling):
        console.print(shown)
        console.print()
    for note in adapted.notes:
        console.print(f"  note: {escape(note)}", soft_wrap=True)
    console.print(f"{adapted.framework} on row {adapted.row}: [bold green]accepted[/]")


def _rows(shown: Any, values: Any) -> None:
    for name, value in values.items():
        shown.add_row(name, escape("unset" if value is None else str(value)))
