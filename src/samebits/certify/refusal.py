"""A refusal on record: the real engine is built on a foreign model, and what it raises is the evidence.

A refusal is signed only where the real component was there and raised.  So nothing stands in for the engine, and an
engine that cannot be imported, a machine without memory or a process that dies leave no evidence at all.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from samebits.certify.clock import Clock
from samebits.certify.folder import RunFolder
from samebits.certify.order import Order
from samebits.certify.reporter import Reporter
from samebits.errors import MachineError
from samebits.hashing import sha256_file
from samebits.oracle import EvidenceWriter, fact_rows
from samebits.recipe import Refusal, config_bytes

KIND: Final = "construct"
NO_REFUSALS: Final = ("ImportError", "ModuleNotFoundError", "MemoryError", "OutOfMemoryError")
"""Errors that say something of the machine, whatever was asked."""
TIMEOUT: Final = 1800.0


def record(order: Order, run: RunFolder, reporter: Reporter) -> None:
    """Build the engine, with the flag and without it where there is one, and keep what it said.

    Raises:
        MachineError: the engine was not really there, or its process died.
    """
    refusal = order.recipe.refusal
    assert refusal is not None  # noqa: S101  # of a refusal's recipe
    if run.is_done(KIND):
        return
    evidence = EvidenceWriter(run.evidence, run.parts)
    evidence.discard_unfinished(run.manifest.phases)
    folder = run.path / "model"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_bytes(config_bytes(order.recipe.model))
    clock = Clock("aligned", -1)
    reporter.live("building the engine on the foreign model")
    with clock.phase(KIND, "engine"):
        said = _attempt(order, run, folder, refusal, with_flag=refusal.batch_invariant)
    reporter.line(f"vLLM {said['vllm']}: {_words(said) or 'raised nothing'}")
    facts = {
        "libraries": {"vllm": said["vllm"], "torch": said["torch"]},
        "settings": said["settings"],
        **{name: said[name] for name in ("device", "batch_invariant", "config_sha256", "stage")},
    }
    if refusal.batch_invariant:
        reporter.live("the same without the flag")
        with clock.phase("construct without", "engine"):
            without = _attempt(order, run, folder, refusal, with_flag=False)
        facts["without"] = {"stage": without["stage"], "message": _words(without)}
        reporter.line(f"without the flag: {_words(without) or 'a token came out'}")
    row = {
        "kind": KIND,
        "set": json.dumps({"batch_invariant": refusal.batch_invariant, **refusal.arguments}, sort_keys=True),
        "refused": said["stage"] != "none",
        "by": "vllm",
        "field": said["stage"],
        "message": _words(said),
    }
    evidence.part(KIND, {"refusals": [row], "facts": fact_rows("aligned", "engine", facts), "timings": clock.rows})
    run.finish("libraries", libraries={"engine": said["loaded"]})
    run.finish(KIND, prepared={"folder": str(folder), "files": {"config.json": sha256_file(folder / "config.json")}})


def _attempt(order: Order, run: RunFolder, folder: Path, refusal: Refusal, *, with_flag: bool) -> Mapping[str, Any]:
    arguments = [str(folder), "--arguments", json.dumps(refusal.arguments)]
    log = run.logs / f"engine-{'with' if with_flag else 'without'}-flag.log"
    try:
        with log.open("wb") as stream:
            finished = subprocess.run(
                order.launcher.command(
                    "samebits.engine.vllm.unsupported", *arguments, *(["--flag"] if with_flag else [])
                ),
                stdout=subprocess.PIPE,
                stderr=stream,
                check=False,
                timeout=TIMEOUT,
                env=order.launcher.environment(1),
            )
    except subprocess.TimeoutExpired:
        raise _not_there(log, f"no answer for {TIMEOUT:.0f} s") from None
    lines = finished.stdout.decode(errors="replace").strip().splitlines()
    if finished.returncode or not lines:
        raise _not_there(log, f"exit status {finished.returncode}")
    try:
        said: dict[str, Any] = json.loads(lines[-1])
    except ValueError:
        raise _not_there(log, "no result in its last line") from None
    if said["error"] in NO_REFUSALS:
        raise _not_there(log, _words(said))
    return said


def _words(said: Mapping[str, Any]) -> str:
    """What it raised and where, in one line; empty if nothing."""
    return f"{said['error']}: {said['message']} ({said['place']})" if said["error"] else ""


def _not_there(log: Path, found: str) -> MachineError:
    return MachineError(
        "engine",
        found=found,
        accepted="the real engine, there and able to raise by itself",
        next_step=f"Nothing was refused, so nothing is recorded; see {log}.",
    )
