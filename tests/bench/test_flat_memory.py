"""Memory does not grow with the number of tokens: the high-water mark of whole verifications, as a test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCALE = Path(__file__).parents[2] / "bench" / "scale.py"

FEW, MANY = 1_000_000, 5_000_000
GROWTH_MIB = 48
"""Allowed between the two; 6 were seen.  The four million rows in between take about 140 MiB once decoded."""


def test_five_times_the_tokens_in_the_same_memory() -> None:
    command = [sys.executable, str(SCALE), "--json", "--tokens", str(FEW), str(MANY)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    few, many = found["sizes"]
    assert (few["exit_code"], many["exit_code"], many["reasons"]) == (0, 0, [])
    assert many["tokens"] > 4.9 * few["tokens"]
    assert abs(found["growth_mib"]) < GROWTH_MIB
