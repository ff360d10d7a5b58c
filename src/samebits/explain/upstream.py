"""A script that shows the fault with the engine alone, fit to be filed with whoever makes it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from samebits.engine.protocol import Request
from samebits.environment import Launcher
from samebits.errors import InputError, MachineError
from samebits.explain.explanation import Explanation
from samebits.spool import to_message


def require_possible(kind: str, other: str) -> None:
    """Nothing if a script could show it.

    Raises:
        InputError: the engine is the kit's own, or the engine agrees with itself and the actor differs.
    """
    if kind != "vllm" or other != "prefill":
        raise InputError(
            "--script",
            found=f"engine {kind!r}, rollout against {other}",
            accepted="vLLM's rollout against its own prefill",
            next_step="Leave --script out: nothing upstream shows this without the kit.",
        )


def write(
    path: Path,
    found: Explanation,
    parameters: Mapping[str, Any],
    requests: Sequence[Request],
    *,
    launcher: Launcher,
    scratch: Path,
) -> None:
    """Write the script to ``path``; ``parameters`` are those that the arm's engine was constructed with.

    Raises:
        MachineError: the process on the row's stack that writes it failed.
    """
    request = scratch / "script.json"
    observed = "" if found.birth is None else f"Traced once to {found.birth.first.op} ({found.birth.first.left_by})."
    request.write_text(
        json.dumps(
            {
                "parameters": dict(parameters),
                "requests": [to_message(one) for one in requests],
                "observed": observed,
            }
        )
    )
    finished = subprocess.run(
        launcher.command("samebits.engine.vllm.script", str(request), str(path.absolute())),
        capture_output=True,
        text=True,
        check=False,
        env=launcher.environment(1),
    )
    if finished.returncode:
        raise MachineError(
            "--script",
            found=" ".join(finished.stderr.strip().splitlines()[-2:]) or f"exit status {finished.returncode}",
            accepted="a script",
            next_step="Everything else was explained; run again without --script.",
        )
