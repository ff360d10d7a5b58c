from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from samebits import pins
from samebits.errors import MachineError
from samebits.replay import machine

HERE = {"architecture": "x86_64", "cpuFlags": ["avx2", "fma"], "cpuCaches": ["L2 1024K"], "kernel": "Linux 6"}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "describe", lambda: HERE)
    monkeypatch.setattr(pins, "torch_build", lambda _: SimpleNamespace(wheel_sha256="aa"))


def predicate(wheel: str = "aa", **environment: Any) -> dict[str, Any]:
    return {
        "environment": {**HERE, **environment},
        "configuration": [{"name": "torch", "digest": {"sha256": wheel}}],
    }


def test_another_kernel_of_the_system_is_comparable() -> None:
    machine.require_comparable(predicate(kernel="Linux 5"), None)


@pytest.mark.parametrize(
    ("said", "field", "found", "accepted"),
    [
        (predicate(cpuFlags=["avx2"]), "cpuFlags", "avx2, fma", "avx2"),
        (predicate(architecture="aarch64"), "architecture", "x86_64", "aarch64"),
        (predicate(gpus=["1 × NVIDIA H200"]), "gpus", "None", "1 × NVIDIA H200"),
        (predicate(wheel="bb"), "torch", "aa", "bb"),
    ],
)
def test_another_machine_is_not(said: dict[str, Any], field: str, found: str, accepted: str) -> None:
    with pytest.raises(MachineError) as raised:
        machine.require_comparable(said, None)
    assert raised.value.field == f"not comparable: {field}"
    assert raised.value.found == found
    assert raised.value.accepted == f"{accepted}, as where the certificate was made"
    assert raised.value.exit_code == 3
