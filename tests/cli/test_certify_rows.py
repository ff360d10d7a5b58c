"""Rows that this machine is not: said before anything is installed."""

import subprocess
import sys

import pytest

from samebits import pins

has_h200 = pins.choice.is_of_its_kind(pins.load("h200-vllm-0.26")[0], pins.look())


@pytest.mark.skipif(has_h200, reason="this machine has the row's GPU")
def test_a_gpu_row_without_the_gpu_ends_with_3(tmp_path):
    command = [sys.executable, "-m", "samebits", "certify", "--family", "dense", "--row", "h200-vllm-0.26"]
    options = ["--unsigned", "--runs", str(tmp_path)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "accepted  x86_64, 1 × NVIDIA H200" in done.stderr
    assert list(tmp_path.iterdir()) == []
