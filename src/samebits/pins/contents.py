"""An image's inventory against its row: every package and library that the row asks for, and nothing besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from packaging.utils import canonicalize_name

from samebits import schema
from samebits.hashing import sha256_file
from samebits.pins import files, hashed
from samebits.pins.finding import SHOWN, Finding, listed
from samebits.pins.inventory import KIT, Environment, Inventory, again, differences, load
from samebits.pins.row import Requirements, Row


def findings(row: Row) -> list[Finding]:
    """About the image that this process runs in: is it the row's, and still as it was built? None outside of it."""
    built = load()
    if built is None or built.row != row.id:
        return []
    changed = differences(built, again(built))
    wanted = files.digest(files.load(row.id)[1])
    count = sum(len(one.distributions) for one in built.environments.values())
    libraries = sum(len(one.libraries) for one in built.environments.values())
    return [
        Finding(
            name="image: row",
            found=f"built from {built.row} with sha256 {built.row_sha256[:SHOWN]}…",
            accepted=f"sha256 {wanted[:SHOWN]}…",
            ok=built.row_sha256 == wanted,
        ),
        Finding(
            name="image: contents",
            found=listed(changed) or f"{count} packages and {libraries} libraries as it was built",
            accepted="every package and library of its inventory, and no other",
            ok=not changed,
        ),
        *against(row, built),
    ]


def against(row: Row, inventory: Inventory) -> list[Finding]:
    """What an inventory holds against what the row pins; the same on the machine that built the image and inside it."""
    wrong = [*_requirements(row, inventory), *_packages(row, inventory)]
    found = [
        Finding(
            name="image: pins",
            found=listed(wrong) or "as pinned",
            accepted="what the row pins, and nothing besides",
            ok=not wrong,
        )
    ]
    if inventory.arch != row.hardware.arch:
        found.append(Finding(name="image: architecture", found=inventory.arch, accepted=row.hardware.arch, ok=False))
    return found + [_material(material.name, dict(material.libraries), inventory) for material in row.materials]


def _requirements(row: Row, inventory: Inventory) -> Iterator[str]:
    """Each environment that hashed requirements make holds exactly those, and torch with a build that is listed."""
    if row.requirements is not None:
        yield from _exactly(row, row.requirements, inventory, KIT, with_torch=row.stack is None)
    stack = next((prefix for prefix in inventory.environments if prefix != KIT), None)
    if row.stack is not None and not row.stack.in_base_image and stack is not None:
        yield from _exactly(row, row.stack.requirements, inventory, stack, with_torch=True)
    if row.stack is not None and stack is None:
        yield "no environment for the workers"


def _exactly(
    row: Row, requirements: Requirements, inventory: Inventory, prefix: str, *, with_torch: bool
) -> Iterator[str]:
    environment = inventory.environments.get(prefix)
    pinned = None if environment is None else _pinned(requirements, environment, inventory.arch)
    if environment is None or pinned is None:
        yield f"no {prefix}" if environment is None else f"no {requirements.file} with the row's digest"
        return
    installed = environment.distributions
    for name in sorted(pinned.keys() | installed.keys()):
        if name == "torch" and with_torch:
            continue
        if name not in pinned:
            yield f"extra package {name} {installed[name].version}"
        elif name not in installed:
            yield f"no package {name}"
        elif installed[name].version != pinned[name]:
            yield f"{name} {installed[name].version} for {pinned[name]}"
    if with_torch and row.torch_builds:
        found = installed.get("torch")
        if found is None or all(build.content_sha256 != found.record_sha256 for build in row.torch_builds):
            yield f"torch {found.version if found else 'absent'}, no build of the row"


def _pinned(requirements: Requirements, environment: Environment, arch: str) -> Mapping[str, str] | None:
    paths = [folder / requirements.file for folder in schema.folders("lock")]
    path = next((path for path in paths if path.is_file() and sha256_file(path) == requirements.sha256), None)
    if path is None:
        return None
    said = {"python_version": environment.python, "python_full_version": f"{environment.python}.0"}
    said |= {"platform_machine": arch, "sys_platform": "linux"}
    return {
        pin.name: pin.version for pin in hashed.parse(path.read_text(), source=requirements.file) if pin.applies(said)
    }


def _packages(row: Row, inventory: Inventory) -> Iterator[str]:
    """Versions that the row names, wherever in the image they are."""
    for package in row.packages:
        name = canonicalize_name(package.name)
        versions = {
            one.distributions[name].version.partition("+")[0]
            for one in inventory.environments.values()
            if name in one.distributions
        }
        if versions != {package.version.partition("+")[0]}:
            yield f"{name} {', '.join(sorted(versions)) or 'absent'} for {package.version}"


def _material(name: str, wanted: Mapping[str, str], inventory: Inventory) -> Finding:
    """The libraries of one material by file name, each against the row where the row has its digest."""
    key = name.lower().replace("-", "").replace(" ", "")
    found = {
        path.rpartition("/")[2]: digest
        for environment in inventory.environments.values()
        for path, digest in environment.libraries.items()
        if path.rpartition("/")[2] in wanted or (not wanted and key in path.lower().replace("_", "").replace("-", ""))
    }
    different = [file for file, digest in wanted.items() if found.get(file) != digest]
    shown = listed([f"{file} {digest[:SHOWN]}…" for file, digest in sorted(found.items())])
    return Finding(
        name=f"image: {name}",
        found=shown or "no library of this name",
        accepted=listed([f"{file} {digest[:SHOWN]}…" for file, digest in sorted(wanted.items())])
        or "any: its digests are not pinned yet",
        ok=not different,
    )
