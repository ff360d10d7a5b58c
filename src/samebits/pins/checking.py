"""What is installed here against what a row pins. All differences are found at once."""

from __future__ import annotations

import functools
import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from samebits import hashing, schema
from samebits.environment import Launcher
from samebits.errors import RowError
from samebits.pins import content, hashed
from samebits.pins.machine import Machine, look
from samebits.pins.row import Build, Requirements, Row

_SHOWN = 12
"""Digits of a digest that a finding shows, and names it lists before it only counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing a row asks for: what was found, what is accepted."""

    name: str
    found: str
    accepted: str
    ok: bool

    def to_dict(self) -> dict[str, str | bool]:
        """As JSON-ready values."""
        return asdict(self)


def check(row: Row, machine: Machine | None = None, launcher: Launcher | None = None) -> list[Finding]:
    """Everything ``row`` asks for, in the order of its file; takes about a second: torch's libraries are hashed.

    ``launcher`` starts processes on the row's own stack, where it has one.
    """
    machine = machine or look()
    return [
        *_hardware(row, machine),
        _python(row, machine),
        *_own(row),
        *(installed(row) if row.stack is None else _on_stack(row, launcher)),
    ]


def installed(row: Row) -> list[Finding]:
    """What the row pins of this interpreter's packages: versions, torch's build, and the libraries that compute."""
    found: list[Finding] = []
    for package in row.packages:
        if package.name != "torch":
            found.append(_package(package.name, package.version))
            if package.kernels and found[-1].ok:
                found.append(_libraries(package.name, _verify_once(package.name)))
    return found + _torch(row)


def require(row: Row, machine: Machine | None = None, launcher: Launcher | None = None) -> list[Finding]:
    """The findings, if all are in order.

    Raises:
        RowError: the first that is not, with the number of others.
    """
    findings = check(row, machine, launcher)
    wrong = [finding for finding in findings if not finding.ok]
    if wrong:
        others = f" Also not as pinned: {', '.join(finding.name for finding in wrong[1:])}." if wrong[1:] else ""
        raise RowError(
            f"row {row.id}: {wrong[0].name}",
            found=wrong[0].found,
            accepted=wrong[0].accepted,
            next_step="See `samebits doctor`; the nox sessions install what the row pins." + others,
        )
    return findings


def torch_build(row: Row) -> Build | None:
    """The row's entry for the torch that is installed, or None where it is none of them."""
    installed = _installed_torch()
    if installed is None or installed.differing:
        return None
    return next((build for build in row.torch_builds if build.content_sha256 == installed.content_sha256), None)


def _hardware(row: Row, machine: Machine) -> list[Finding]:
    hardware = row.hardware
    findings = [
        Finding(name="architecture", found=machine.arch, accepted=hardware.arch, ok=machine.arch == hardware.arch),
        Finding(
            name="memory",
            found=f"{machine.memory_gib} GiB",
            accepted=f"at least {hardware.memory_gib} GiB",
            ok=machine.memory_gib >= hardware.memory_gib,
        ),
    ]
    if hardware.accelerator != "none":
        findings.append(
            Finding(
                name="accelerator",
                found=", ".join(machine.gpus) or "none",
                accepted=f"{hardware.count} × {hardware.accelerator}",
                ok=has_accelerators(row, machine),
            )
        )
    return findings


def has_accelerators(row: Row, machine: Machine) -> bool:
    """Whether ``machine`` has the row's accelerators, at least as many; true for a row that asks for none."""
    wanted = row.hardware
    if wanted.accelerator == "none":
        return True
    for line in machine.gpus:
        count, _, name = line.partition(" × ")
        if wanted.accelerator in name and count.isdigit() and int(count) >= wanted.count:
            return True
    return False


def _python(row: Row, machine: Machine) -> Finding:
    inside = SpecifierSet(row.python).contains(machine.python, prereleases=True)
    return Finding(name="python", found=machine.python, accepted=row.python, ok=inside)


def _on_stack(row: Row, launcher: Launcher | None) -> list[Finding]:
    """The findings of the stack's own interpreter."""
    accepted = f"the stack of row {row.id}"
    if launcher is None:
        return [Finding(name="stack", found="not installed", accepted=accepted, ok=False)]
    with tempfile.TemporaryDirectory(prefix="samebits-row-") as name:
        request = Path(name) / "row.json"
        request.write_text(row.model_dump_json())
        finished = subprocess.run(
            launcher.command("samebits.pins.inside", str(request)),
            capture_output=True,
            text=True,
            check=False,
            env=launcher.environment(1),
        )
    if finished.returncode:
        words = " ".join(finished.stderr.strip().splitlines()[-3:])
        return [Finding(name="stack", found=words or "it cannot run", accepted=accepted, ok=False)]
    return [Finding(**finding) for finding in json.loads(finished.stdout.strip().splitlines()[-1])]


def _own(row: Row) -> list[Finding]:
    found = [] if row.requirements is None else [_requirements(row.requirements)]
    if row.image is not None:
        found.append(Finding(name="image", found="not inside it", accepted=row.image.name, ok=False))
    return found


def _requirements(requirements: Requirements) -> Finding:
    """The whole of the hashed requirements at once: a certificate names the file's digest, so all of it must be so."""
    name, wanted = requirements.file, requirements.sha256
    accepted = f"{name} with sha256 {wanted[:_SHOWN]}…, all of it installed"
    paths = [folder / name for folder in schema.folders("lock") if (folder / name).is_file()]
    path = next((path for path in paths if hashing.sha256_file(path) == wanted), None)
    if path is None:
        found = f"{name} with sha256 {hashing.sha256_file(paths[0])[:_SHOWN]}…" if paths else f"no {name}"
        return Finding(name="requirements", found=found, accepted=accepted, ok=False)
    pinned = [pin for pin in hashed.parse(path.read_text(), source=name) if pin.applies()]
    different = [
        f"{pin.name} {version or 'absent'} for {pin.version}"
        for pin in pinned
        if (version := _version(pin.name)) != pin.version
    ]
    if different:
        more = f" and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
        return Finding(name="requirements", found=", ".join(different[:_SHOWN]) + more, accepted=accepted, ok=False)
    return Finding(name="requirements", found=f"{len(pinned)} of {len(pinned)} as pinned", accepted=accepted, ok=True)


def _package(name: str, version: str) -> Finding:
    found = _version(name)
    return Finding(name=name, found=found or "not installed", accepted=version, ok=found == version)


def _torch(row: Row) -> list[Finding]:
    pinned = next((package.version for package in row.packages if package.name == "torch"), None)
    if pinned is None:
        return []
    found = _installed_torch()
    if found is None:
        return [Finding(name="torch", found="not installed", accepted=pinned, ok=False)]
    return [
        Finding(
            name="torch",
            found=found.version,
            accepted=f"{pinned}, any build listed in the row",
            ok=Version(found.version).public == pinned,
        ),
        Finding(
            name="torch build",
            found=_build_text(found.version, found.python_tag, found.content_sha256),
            accepted="; ".join(
                _build_text(build.version, build.python, build.content_sha256) for build in row.torch_builds
            ),
            ok=any(build.content_sha256 == found.content_sha256 for build in row.torch_builds),
        ),
        _libraries("torch", found),
    ]


def _libraries(name: str, found: content.Installed) -> Finding:
    return Finding(
        name=f"{name} libraries",
        found=f"changed since installation: {', '.join(found.differing[:_SHOWN])}"
        if found.differing
        else f"{found.verified} of {found.verified} as in the wheel",
        accepted="every shared library as in the wheel",
        ok=not found.differing and found.verified > 0,
    )


def _build_text(version: str, python: str, digest: str) -> str:
    return f"{version} {python} {digest[:_SHOWN]}…"


def _installed_torch() -> content.Installed | None:
    return _verify_once("torch") if _version("torch") else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


_verify_once: Callable[[str], content.Installed] = functools.cache(content.verify_distribution)
"""Hashing torch's libraries takes about a second; they do not change under a running process."""
