"""The machine as recorded: what decides bits, nothing private."""

from __future__ import annotations

import getpass
import json
import os
import platform
from pathlib import Path

import pytest

from samebits.environment import describe, machine

EPYC = """processor\t: 0
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC
stepping\t: 1
flags\t\t: fpu sse2 smep avx avx2 fma avx512f avx512_bf16 avx512_vnni amx_tile amx_bf16 aes sse4_1

processor\t: 1
model name\t: another
"""
GRACE = """processor\t: 0
Features\t: fp asimd aes fphp asimdhp sve sve2 bf16 i8mm svei8mm crc32
CPU implementer\t: 0x41
CPU part\t: 0xd4f
"""


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def nvidia_smi(folder: Path, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.usefixtures("bin_folder")
def test_this_machine() -> None:
    description = describe()
    assert set(description) >= {"os", "kernel", "architecture", "cpuCount", "python", "pythonImplementation"}
    assert description["architecture"] == platform.machine()
    assert description["python"] == platform.python_version()
    assert description["cpuCount"] == str(len(os.sched_getaffinity(0)))
    assert "gpus" not in description
    assert all(isinstance(value, str) or all(isinstance(v, str) for v in value) for value in description.values())


@pytest.mark.usefixtures("bin_folder")
def test_nothing_private_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "Atlantis/Somewhere")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8f0b0e5a")
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    text = json.dumps(describe())
    for private in (platform.node(), str(tmp_path), "Atlantis", "GPU-8f0b0e5a", "hush", "SECRET_TOKEN"):
        assert not private or private not in text
    assert getpass.getuser() == "root" or getpass.getuser() not in text


def test_variables_are_names_and_values_only_of_harmless_ones() -> None:
    environ = {"HOME": "/h", "LANG": "C.UTF-8", "LC_ALL": "C", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "RANK": "0"}
    assert machine._variables(environ) == ["CUDA_DEVICE_ORDER=PCI_BUS_ID", "HOME", "LANG=C.UTF-8", "LC_ALL=C"]


@pytest.mark.parametrize(
    ("cpuinfo", "name", "flags"),
    [
        (
            EPYC,
            "AMD EPYC (family 25 model 17 stepping 1)",
            ["amx_bf16", "amx_tile", "avx", "avx2", "avx512_bf16", "avx512_vnni", "avx512f", "fma", "sse4_1"],
        ),
        (
            GRACE,
            "implementer 0x41 part 0xd4f",
            ["asimd", "asimdhp", "bf16", "fp", "fphp", "i8mm", "sve", "sve2", "svei8mm"],
        ),
    ],
)
def test_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpuinfo: str, name: str, flags: list[str]) -> None:
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "cpuinfo")
    description = describe()
    assert (description["cpu"], description["cpuFlags"]) == (name, flags)


def test_what_cannot_be_told_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "none")
    monkeypatch.setattr(machine, "_CACHES", tmp_path / "none")
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert {"cpu", "cpuFlags", "cpuCaches"} & set(describe()) == set()


def test_the_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caches = [("1", "Data", "32K"), ("1", "Instruction", "32K"), ("2", "Unified", "1024K")]
    for index, (level, kind, size) in enumerate(caches):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, value in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{value}\n")
    monkeypatch.setattr(machine, "_CACHES", tmp_path)
    assert describe()["cpuCaches"] == ["L1d 32K", "L1i 32K", "L2 1024K"]


def test_gpus_are_counted_by_name(bin_folder: Path) -> None:
    nvidia_smi(
        bin_folder, 'echo "NVIDIA H200, 580.65.06"; echo "NVIDIA A, B, 580.65.06"; echo "NVIDIA H200, 580.65.06"'
    )
    description = describe()
    assert description["gpus"] == ["1 × NVIDIA A, B", "2 × NVIDIA H200"]
    assert description["gpuDriver"] == "580.65.06"


@pytest.mark.parametrize("script", ["exit 9", "echo No devices were found"])
def test_a_driver_without_gpus_has_none(bin_folder: Path, script: str) -> None:
    nvidia_smi(bin_folder, script)
    assert {"gpus", "gpuDriver"} & set(describe()) == set()
