"""What ``samebits doctor`` reports: for each row whether this machine can certify it, and what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from samebits.environment import Launcher, StackEnvironment
from samebits.pins import files, stack
from samebits.pins.checking import check, torch_build
from samebits.pins.finding import Finding
from samebits.pins.machine import Machine, look
from samebits.pins.row import Row


@dataclass(frozen=True, kw_only=True, slots=True)
class RowDiagnosis:
    """One row on this machine. ``limitations`` do not stop a certification; they say what is not known about it."""

    id: str
    title: str
    findings: list[Finding]
    limitations: list[str]

    @property
    def ready(self) -> bool:
        """Whether this machine can certify the row now."""
        return all(finding.ok for finding in self.findings)


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """The machine, as a certificate would record it, and every row."""

    machine: Mapping[str, str | list[str]]
    rows: list[RowDiagnosis]

    def to_dict(self) -> dict[str, object]:
        """As JSON-ready values."""
        return {
            "machine": dict(self.machine),
            "rows": [{**asdict(row), "ready": row.ready} for row in self.rows],
        }


def diagnose(rows: Sequence[Row] | None = None, machine: Machine | None = None) -> Diagnosis:
    """Every known row, or ``rows``, on this machine.

    Raises:
        InputError: a row file cannot be read.
    """
    machine = machine or look()
    if rows is None:
        rows = [files.load(row_id)[0] for row_id in files.known()]
    return Diagnosis(
        machine=machine.description,
        rows=[
            RowDiagnosis(
                id=row.id,
                title=row.title,
                findings=check(row, machine, _installed_stack(row)),
                limitations=limitations(row, machine),
            )
            for row in rows
        ],
    )


def _installed_stack(row: Row) -> Launcher | None:
    python = None if row.stack is None else stack.find(row)
    return None if python is None else StackEnvironment(python, stack.link_folder())


def limitations(row: Row, machine: Machine) -> list[str]:
    """What is not known, or not promised, about ``row`` on this machine: sentences for a certificate."""
    hardware = row.hardware
    found: list[str] = []
    if row.status == "never run":
        found.append("This row has never been run; its pins are from public records.")
    unseen = [flag for flag in hardware.exact_with if flag not in machine.flags]
    if unseen:
        found.append(
            f"This CPU lacks {', '.join(unseen)}: exactness was only seen on CPUs that have "
            f"{', '.join(hardware.exact_with)}, so the run is the first to tell."
        )
    if machine.cores < hardware.cores:
        found.append(f"{machine.cores} of the {hardware.cores} CPU cores that the promised times are for.")
    if machine.disk_gib < hardware.disk_gib:
        found.append(
            f"{machine.disk_gib} GiB of disk are free; installation and a run take up to {hardware.disk_gib} GiB."
        )
    build = torch_build(row)
    if build is not None and build.status == "never run":
        found.append(
            f"torch {build.version} for {build.python} is accepted by its published digests; "
            "the row has not been run with this build before."
        )
    return found
