from __future__ import annotations

import dataclasses

import pytest

from samebits import pins
from samebits.pins.machine import Machine


@pytest.fixture
def row():
    return pins.load("cpu")[0]


@pytest.fixture
def gpu_row(row):
    """A row as a GPU stack would have it: four H200, never run."""
    hardware = row.hardware.model_copy(update={"accelerator": "NVIDIA H200", "count": 4})
    return row.model_copy(update={"id": "h200-x4", "hardware": hardware, "status": "never run"})


@pytest.fixture
def machine():
    return Machine(
        description={"cpu": "a CPU"},
        arch="x86_64",
        python="3.12.4",
        cores=2,
        memory_gib=16,
        disk_gib=100,
        flags=frozenset({"avx512f", "avx512_bf16"}),
        gpus=(),
    )


@pytest.fixture
def with_gpus(machine):
    return dataclasses.replace(machine, gpus=("4 × NVIDIA H200",))
