from __future__ import annotations

import dataclasses

import pytest

from samebits import pins
from samebits.errors import InputError, MachineError


def test_no_gpu(row, gpu_row, machine):
    assert pins.choose_row([gpu_row, row], machine) == (row, "no NVIDIA GPU was found")


def test_a_gpu_without_a_row(row, with_gpus):
    assert pins.choose_row([row], with_gpus) == (
        row,
        "found 4 × NVIDIA H200, but this recipe has no row for it yet; a CPU is enough for this one",
    )


def test_a_gpu_with_a_row(row, gpu_row, with_gpus):
    assert pins.choose_row([row, gpu_row], with_gpus) == (gpu_row, "found 4 × NVIDIA H200")


def test_no_row_fits(row, gpu_row, machine):
    with pytest.raises(MachineError) as caught:
        pins.choose_row([row, gpu_row], dataclasses.replace(machine, arch="aarch64"))
    assert str(caught.value) == (
        "machine: found aarch64, no NVIDIA GPU; accepted: cpu: x86_64, no GPU; h200-x4: x86_64, 4 × NVIDIA H200. "
        "Run it on such a machine; `samebits doctor` says what each row asks for."
    )
    assert caught.value.exit_code == 3


def test_choose_returns_the_file_too(machine):
    row, content, reason = pins.choose(None, ["cpu"], machine)
    assert (row, content) == pins.load("cpu")
    assert reason == "no NVIDIA GPU was found"
    assert pins.choose("cpu", ["cpu"], machine) == (row, content, "asked for")


def test_a_row_that_the_recipe_does_not_allow(machine):
    with pytest.raises(InputError) as caught:
        pins.choose("cpu", ["h200-x4"], machine)
    assert str(caught.value) == (
        "row: found 'cpu'; accepted: h200-x4. "
        "The recipe names the rows that it may be certified on: choose one of them."
    )


def test_a_recipe_that_names_an_unknown_row(machine):
    with pytest.raises(InputError) as caught:
        pins.choose(None, ["gpu"], machine)
    assert caught.value.field == "row"


def test_a_row_that_lives_in_an_image(machine):
    with pytest.raises(MachineError) as caught:
        pins.choose("h100-ds4-preview", ["cpu"], machine)
    assert str(caught.value) == (
        "row h100-ds4-preview: found x86_64, no NVIDIA GPU, outside its image; accepted: x86_64, 64 × NVIDIA H100, "
        "inside verl's DeepSeek-V4 true-on-policy preview image. Build the image from verl, "
        "docker/Dockerfile.dsv4_true_on_policy_preview; this row is never run, its file holds the pins. Without such a "
        "machine leave --row out: the row cpu certifies the same rules at a small size."
    )
    assert caught.value.exit_code == 3


def test_rows_elsewhere():
    assert pins.elsewhere("dense") == []
    assert pins.elsewhere("ds4") == [
        (
            "gb200-ds4-preview",
            "never run; needs aarch64, 32 × NVIDIA GB200, and verl's DeepSeek-V4 true-on-policy preview image",
        ),
        (
            "h100-ds4-preview",
            "never run; needs x86_64, 64 × NVIDIA H100, and verl's DeepSeek-V4 true-on-policy preview image",
        ),
    ]
