"""The real vLLM's CPU build, in its own environment: ``SAMEBITS_VLLM_PYTHON`` names its interpreter."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import samebits

HERE = Path(__file__).parent
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}


class Vllm:
    """Runs this folder's scripts there."""

    def __init__(self, python: str, scratch: Path) -> None:
        self._python = python
        self._scratch = scratch
        self._calls = 0

    def run(self, script: str, *arguments: str, **variables: str) -> None:
        path = os.pathsep.join([str(Path(samebits.__file__).parents[1]), str(HERE.parents[1])])
        environment = {**os.environ, **VARIABLES, **variables, "PYTHONPATH": path}
        done = subprocess.run(
            [self._python, HERE / script, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]

    def ask(self, script: str, asked: dict, **variables: str):
        """What ``script`` writes about ``asked``."""
        self._calls += 1
        out, given = (self._scratch / f"{self._calls}.{kind}.json" for kind in ("out", "asked"))
        given.write_text(json.dumps({**asked, "out": str(out)}))
        self.run(script, str(given), **variables)
        return out


@pytest.fixture(scope="session")
def vllm(tmp_path_factory):
    python = os.environ.get("SAMEBITS_VLLM_PYTHON")
    if not python:
        pytest.skip("SAMEBITS_VLLM_PYTHON names no interpreter of an environment with vLLM")
    return Vllm(python, tmp_path_factory.mktemp("vllm"))
