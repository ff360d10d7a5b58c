"""A dozen runs that are killed and taken up again; ``nox -s full`` has hundreds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_a_dozen_crashes_are_survived() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "crashes", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        timeout=1800,
    )
    crashes = json.loads(ended.stdout)["crashes"]
    assert len(crashes) == 12
    assert {row["crash"]: row["wrong"] for row in crashes if row["wrong"]} == {}
    assert ended.returncode == 0
