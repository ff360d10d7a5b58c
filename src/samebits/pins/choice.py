"""Which row a machine certifies, and why."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.errors import InputError, MachineError
from samebits.pins import files, inventory
from samebits.pins.checking import is_of_its_kind
from samebits.pins.machine import Machine, look
from samebits.pins.row import Image, Row


def choose(name: str | None, allowed: Sequence[str], machine: Machine | None = None) -> tuple[Row, bytes, str]:
    """The row called ``name``, or the best one for this machine, of those that a recipe allows; its file; and why.

    Raises:
        InputError: no such row, or the recipe does not allow it.
        MachineError: none of the rows fits this machine; or the row lives in an image, and this is not it.
    """
    if name is not None:
        row, data = files.load(name)
        if row.image is not None and not _inside(row):
            raise _needs_its_image(row, row.image, machine or look())
        if row.id not in allowed:
            raise InputError(
                "row",
                found=repr(row.id),
                accepted=", ".join(allowed),
                next_step="The recipe names the rows that it may be certified on: choose one of them.",
            )
        return row, data, "asked for"
    loaded = [files.load(row_id) for row_id in allowed]
    row, reason = choose_row([row for row, _ in loaded], machine or look())
    return row, next(data for candidate, data in loaded if candidate is row), reason


def choose_row(rows: Sequence[Row], machine: Machine) -> tuple[Row, str]:
    """The one of ``rows`` with the most accelerators that ``machine`` has, and the reason in words.

    Raises:
        MachineError: none fits; says what each of them asks for.
    """
    fitting = [row for row in rows if is_of_its_kind(row, machine)]
    if not fitting:
        raise MachineError(
            "machine",
            found=f"{machine.arch}, {', '.join(machine.gpus) or 'no NVIDIA GPU'}",
            accepted="; ".join(f"{row.id}: {asks_for(row)}" for row in rows) or "no row at all",
            next_step="Run it on such a machine; `samebits doctor` says what each row asks for.",
        )
    row = max(fitting, key=lambda row: row.hardware.count)
    if row.hardware.accelerator != "none":
        return row, f"found {', '.join(machine.gpus)}"
    if machine.gpus:
        return (
            row,
            f"found {', '.join(machine.gpus)}, but this recipe has no row for it yet; a CPU is enough for this one",
        )
    return row, "no NVIDIA GPU was found"


def _inside(row: Row) -> bool:
    built = inventory.load()
    return built is not None and built.row == row.id


def require_hardware(row: Row, machine: Machine | None = None) -> None:
    """Nothing, if this machine is of the row's kind: asked before gigabytes of its stack are installed.

    Raises:
        MachineError: another architecture, or not the row's accelerators.
    """
    machine = machine or look()
    if not is_of_its_kind(row, machine):
        raise MachineError(
            f"row {row.id}",
            found=f"{machine.arch}, {', '.join(machine.gpus) or 'no NVIDIA GPU'}",
            accepted=asks_for(row),
            next_step="Run it on such a machine; without --row the kit chooses one that this machine has.",
        )


def elsewhere(family: str) -> list[tuple[str, str]]:
    """Rows for models of ``family`` that live in images of their own: id, and what they need, in words."""
    rows = [files.load(row_id)[0] for row_id in files.known()]
    return [
        (row.id, f"{row.status}; needs {asks_for(row)}, and {row.image.name}")
        for row in rows
        if row.image is not None and family in row.image.families
    ]


def _needs_its_image(row: Row, image: Image, machine: Machine) -> MachineError:
    return MachineError(
        f"row {row.id}",
        found=f"{machine.arch}, {', '.join(machine.gpus) or 'no NVIDIA GPU'}, outside its image",
        accepted=f"{asks_for(row)}, inside {image.name}",
        next_step=f"Build the image from {image.dockerfile}; this row is {row.status}, its file holds the pins. "
        "Without such a machine leave --row out: the row cpu certifies the same rules at a small size.",
    )


def asks_for(row: Row) -> str:
    """The row's hardware in words: ``x86_64, 8 × NVIDIA H200`` or ``x86_64, no GPU``."""
    hardware = row.hardware
    accelerators = "no GPU" if hardware.accelerator == "none" else f"{hardware.count} × {hardware.accelerator}"
    return f"{hardware.arch}, {accelerators}"
