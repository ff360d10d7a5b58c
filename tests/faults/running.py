"""One fault, one run: certify, sign, verify, and execute it again where only that can tell."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import warm
from samebits import certificate, verify
from samebits.certificate import keys
from samebits.errors import SamebitsError

from . import tools
from .fault import Check, Fault, Outcome

RECIPES = Path(__file__).with_name("recipes")
TIMEOUT = 300.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """A row of the table."""

    fault: str
    by: str
    caught: bool
    what: str
    seconds: float
    others: tuple[str, ...] = ()
    """Further checks that did not pass."""

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "seconds": f"{self.seconds:.1f}"}


class Stage:
    """Where faults are tried: a scratch folder and a key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = keys.generate_key("faults", folder)

    def begin(self, fault: Fault) -> tuple[warm.Child, Path]:
        """Start the run with ``fault``."""
        room = Path(tempfile.mkdtemp(dir=self.folder))
        tools.use_scratch(room)
        key = self.key.private_path
        return warm.in_child(lambda: asdict(_outcome(fault, room, key)), room / "log", fault.patches), room

    def end(self, fault: Fault, child: warm.Child, room: Path) -> Result:
        """Its row."""
        try:
            said = child.answer(TIMEOUT)
        except TimeoutError as error:
            said = {"crashed": str(error)}
        log = (room / "log").read_text(errors="replace").strip().splitlines()
        said = said or {"crashed": log[-1] if log else "no word"}
        if fault.needs_replay and said.get("verified") == 0:
            # In a process of its own: the parent above has the fault in it.
            replayed = warm.in_child(lambda: _replayed(room / "run", self.key.public_path), room / "log")
            said["replay"] = replayed.answer(TIMEOUT)
        outcome = Outcome(**{**said, "reasons": tuple(said.get("reasons", ()))})
        others = tuple(reason.split(":")[0] for reason in outcome.reasons)
        reason = outcome.what
        if isinstance(fault.by, Check):
            reason = next((one for one in outcome.reasons if one.startswith(f"{fault.by.name}: ")), reason)
        return Result(
            fault=fault.name,
            by=fault.by.name,
            caught=not outcome.crashed and fault.by.caught(outcome),
            what=reason,
            seconds=time.monotonic() - child.began,
            others=others,
        )


class Interrupted(Exception):
    """The run was stopped after its last measurement."""


def _outcome(fault: Fault, room: Path, key: Path) -> Outcome:
    try:
        return _run(fault, room, key)
    except SamebitsError as error:
        return Outcome(error=error.to_dict())
    except Exception as error:  # noqa: BLE001 - what nobody named is a finding of its own
        traceback.print_exc()
        return Outcome(crashed=f"{type(error).__name__}: {error}")


def _run(fault: Fault, room: Path, key: Path) -> Outcome:
    asked = warm.order(RECIPES / f"{fault.recipe}.toml", fault.recipe_text, fault.row_text, scratch=room)
    fault.parent()
    if fault.between is not None:
        _stop_after_measuring(lambda: warm.certify(asked, room, "run"))
        fault.between(room / "run")
    finished = warm.certify(asked, room, "run")
    signed = certificate.sign_run(finished.path, key)
    report = verify.verify(signed.certificate, signed.public_path)
    return Outcome(
        verdict=finished.findings.verdict,
        reasons=tuple(finished.findings.reasons),
        verified=report.exit_code,
    )


def _stop_after_measuring(run: Callable[[], Any]) -> None:
    from samebits.certify import run as run_room  # noqa: PLC0415

    def stop(_: Any, __: Any) -> None:
        raise Interrupted

    judge, run_room.judge = run_room.judge, stop
    try:
        run()
    except Interrupted:
        pass
    finally:
        run_room.judge = judge


def _replayed(run: Path, key: Path) -> Mapping[str, Any]:
    """Every trajectory executed again."""
    from samebits import replay  # noqa: PLC0415

    asked = warm.prepared_launcher(run)
    found = replay.replay(run / "certificate.sigstore.json", key, count=10**6, launcher=asked)
    return {"differing": len(found.differences), "first": str(found.differences[0]) if found.differences else ""}
