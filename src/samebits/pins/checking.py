"""What is installed here against what a row pins. All differences are found at once."""

from __future__ import annotations

import functools
import json
import platform
import subprocess
from collections.abc import Callable
from importlib import metadata

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from samebits.environment import Launcher, OwnEnvironment
from samebits.errors import RowError
from samebits.pins import content, contents, files, hashed
from samebits.pins.finding import SHOWN, Computing, Finding, Survey, listed
from samebits.pins.machine import Machine, look
from samebits.pins.row import Build, Requirements, Row, Stack


def check(row: Row, machine: Machine | None = None, launcher: Launcher | None = None) -> list[Finding]:
    """Everything ``row`` asks for, in the order of its file; takes about a second: torch's libraries are hashed.

    ``launcher`` starts processes on the row's own stack, where it has one.
    """
    return survey(row, machine, launcher).findings


def survey(row: Row, machine: Machine | None = None, launcher: Launcher | None = None) -> Survey:
    """The findings of :func:`check`, and the distributions that compute."""
    machine = machine or look()
    findings = [*_hardware(row, machine), _python(row, machine)]
    if row.stack is None and (launcher is None or isinstance(launcher, OwnEnvironment)):
        inside = inside_of(row)
    else:
        # Where the row has no stack, the workers' environment is the kit's own, in a container: this one only asks.
        findings += [] if row.stack is None else _own(row)
        inside = _on_stack(row, launcher)
    return Survey(findings=[*findings, *inside.findings], computing=inside.computing)


def inside_of(row: Row) -> Survey:
    """The findings of the environment that the row's workers run in, asked there."""
    inside = installed(row)
    if row.stack is not None:
        return inside
    return Survey(findings=[*_own(row), *inside.findings], computing=inside.computing)


def installed(row: Row) -> Survey:
    """What the row pins of this interpreter's packages: versions, torch's build, and the libraries that compute."""
    found: list[Finding] = [] if row.stack is None else [_stack_python(row.stack)]
    computing: list[Computing] = []
    for package in row.packages:
        if package.name == "torch":
            continue
        found.append(_package(package.name, package.version))
        if package.kernels and found[-1].ok:
            libraries = _verify_once(package.name)
            found.append(_libraries(package.name, libraries, may_be_stripped=True))
            if package.wheel_sha256 is not None:
                computing.append(_computing(libraries, package.wheel_sha256))
    found += _torch(row)
    build = torch_build(row)
    if build is not None:
        torch = _verify_once("torch")
        computing.append(_computing(torch, build.wheel_sha256))
    return Survey(findings=found, computing=computing)


def require(row: Row, machine: Machine | None = None, launcher: Launcher | None = None) -> Survey:
    """The survey, if all is in order.

    Raises:
        RowError: the first that is not, with the number of others.
    """
    found = survey(row, machine, launcher)
    wrong = [finding for finding in found.findings if not finding.ok]
    if wrong:
        others = f" Also not as pinned: {', '.join(finding.name for finding in wrong[1:])}." if wrong[1:] else ""
        raise RowError(
            f"row {row.id}: {wrong[0].name}",
            found=wrong[0].found,
            accepted=wrong[0].accepted,
            next_step="See `samebits doctor`; the nox sessions install what the row pins." + others,
        )
    return found


def torch_build(row: Row) -> Build | None:
    """The row's entry for the torch that is installed, or None where it is none of them."""
    installed = _installed_torch()
    if installed is None or installed.differing or installed.missing:
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


def is_of_its_kind(row: Row, machine: Machine) -> bool:
    """Whether ``machine`` is of the row's kind: its architecture and its accelerators."""
    return row.hardware.arch == machine.arch and has_accelerators(row, machine)


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


def _stack_python(stack: Stack) -> Finding:
    found = platform.python_version()
    inside = SpecifierSet(stack.python).contains(found, prereleases=True)
    return Finding(name="stack python", found=found, accepted=stack.python, ok=inside)


def _on_stack(row: Row, launcher: Launcher | None) -> Survey:
    """The findings of the stack's own interpreter."""
    accepted = f"the stack of row {row.id}"
    if launcher is None:
        return Survey(
            findings=[Finding(name="stack", found="not installed", accepted=accepted, ok=False)], computing=[]
        )
    # As an argument: a file of ours need not be there for a process in a container.
    finished = subprocess.run(
        launcher.command("samebits.pins.inside", row.model_dump_json()),
        capture_output=True,
        text=True,
        check=False,
        env=launcher.environment(1),
    )
    if finished.returncode:
        words = " ".join(finished.stderr.strip().splitlines()[-3:])
        broken = Finding(name="stack", found=words or "it cannot run", accepted=accepted, ok=False)
        return Survey(findings=[broken], computing=[])
    said = json.loads(finished.stdout.strip().splitlines()[-1])
    return Survey(
        findings=[Finding(**finding) for finding in said["findings"]],
        computing=[Computing(**one) for one in said["computing"]],
    )


def _own(row: Row) -> list[Finding]:
    found = [] if row.requirements is None else [_requirements(row.requirements)]
    inside = contents.findings(row)
    found += inside
    if row.image is not None and not inside:
        found.append(Finding(name="image", found="not inside it", accepted=row.image.name, ok=False))
    return found


def _requirements(requirements: Requirements) -> Finding:
    """The whole of the hashed requirements at once: a certificate names the file's digest, so all of it must be so."""
    name, wanted = requirements.file, requirements.sha256
    accepted = f"{name} with sha256 {wanted[:SHOWN]}…, all of it installed"
    path, there = files.locate(requirements)
    if path is None:
        found = f"{name} with sha256 {there[:SHOWN]}…" if there else f"no {name}"
        return Finding(name="requirements", found=found, accepted=accepted, ok=False)
    pinned = [pin for pin in hashed.parse(path.read_text(), source=name) if pin.applies()]
    different = [
        f"{pin.name} {version or 'absent'} for {pin.version}"
        for pin in pinned
        if (version := _version(pin.name)) != pin.version
    ]
    if different:
        return Finding(name="requirements", found=listed(different), accepted=accepted, ok=False)
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


def _libraries(name: str, found: content.Installed, *, may_be_stripped: bool = False) -> Finding:
    """Bytes that changed are never accepted; files left out are, where what is left out cannot compute."""
    left_out = listed(found.missing)
    total = found.verified + len(found.missing)
    if found.differing:
        text = f"changed since installation: {listed(found.differing)}"
    elif found.missing:
        text = f"{found.verified} of {total} as in the wheel, the others gone: {left_out}"
    else:
        text = f"{found.verified} of {total} as in the wheel"
    stripped = bool(found.missing) and may_be_stripped
    return Finding(
        name=f"{name} libraries",
        found=text,
        accepted="every shared library as in the wheel",
        ok=not found.differing and found.verified > 0 and (stripped or not found.missing),
        limitation=f"This installation of {name} was stripped: {left_out} left out." if stripped else "",
    )


def _computing(found: content.Installed, wheel_sha256: str | None) -> Computing:
    """By its wheel; an installation whose wheel nobody can name, by its own content."""
    return Computing(
        name=found.name,
        sha256=wheel_sha256 or found.content_sha256,
        annotations={
            "version": found.version,
            "python": found.python_tag,
            "platform": found.platform,
            "installedContentSha256": found.content_sha256,
            "digestOf": "wheel" if wheel_sha256 else "installed content",
        },
    )


def _build_text(version: str, python: str, digest: str) -> str:
    return f"{version} {python} {digest[:SHOWN]}…"


def _installed_torch() -> content.Installed | None:
    return _verify_once("torch") if _version("torch") else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


_verify_once: Callable[[str], content.Installed] = functools.cache(content.verify_distribution)
"""Hashing torch's libraries takes about a second; they do not change under a running process."""
