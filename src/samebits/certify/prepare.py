"""The model folder, made or found in the cache by a process of its own: the parent never imports torch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from samebits.environment import Launcher
from samebits.errors import MachineError, SamebitsError, from_dict
from samebits.recipe import Recipe


def model(recipe: Recipe, scratch: Path, launcher: Launcher) -> dict[str, Any]:
    """Prepare ``recipe.model``: ``{folder, files: {name: sha256}, parameters, vocab_size, layers, …}``.

    Raises:
        SamebitsError: what the process raised; a MachineError with its last words if it died of something else.
    """
    request = scratch / "model.json"
    request.write_text(recipe.model.model_dump_json())
    finished = subprocess.run(
        launcher.command("samebits.models.prepare", "--recipe-json", str(request)),
        capture_output=True,
        text=True,
        check=False,
        env=launcher.environment(recipe.engine.threads),
    )
    last = (finished.stdout.strip().splitlines() or [""])[-1]
    if finished.returncode:
        raise _error_in(last) or MachineError(
            f"model {recipe.model.source}",
            found=" ".join(finished.stderr.strip().splitlines()[-3:]) or f"exit status {finished.returncode}",
            accepted="prepared weights",
            next_step="Install the run requirements (nox does); then run again.",
        )
    result: dict[str, Any] = json.loads(last)
    return result


def _error_in(line: str) -> SamebitsError | None:
    """The error that the process raised on purpose, if its last line is one."""
    try:
        return from_dict(json.loads(line))
    except (ValueError, KeyError, TypeError):
        return None
