"""The model folder, made or found in the cache by a process of its own: the parent never imports torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from samebits.environment import worker_environment
from samebits.errors import MachineError
from samebits.recipe import Recipe


def model(recipe: Recipe, scratch: Path) -> dict[str, Any]:
    """Prepare ``recipe.model``: ``{folder, files: {name: sha256}, parameters, vocab_size, layers, …}``.

    Raises:
        MachineError: the weights could not be made; the last lines of the process' own words are quoted.
    """
    request = scratch / "model.json"
    request.write_text(recipe.model.model_dump_json())
    finished = subprocess.run(
        [sys.executable, "-m", "samebits.models.prepare", "--recipe-json", str(request)],
        capture_output=True,
        text=True,
        check=False,
        env=worker_environment(recipe.engine.threads),
    )
    if finished.returncode:
        words = " ".join(finished.stderr.strip().splitlines()[-3:]) or f"exit status {finished.returncode}"
        raise MachineError(
            f"model {recipe.model.source}",
            found=words,
            accepted="prepared weights",
            next_step="Install the run requirements (nox does); then run again.",
        )
    result: dict[str, Any] = json.loads(finished.stdout.strip().splitlines()[-1])
    return result
