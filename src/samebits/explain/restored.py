"""An arm brought back to one of its policy versions: steps repeated from what was recorded, digests compared."""

from __future__ import annotations

from pathlib import Path

from samebits.certify.arm import Arm
from samebits.certify.clock import Clock
from samebits.certify.recorded import require_same
from samebits.certify.reporter import Reporter
from samebits.certify.round import refit
from samebits.errors import MachineError
from samebits.explain.recorded import Recorded, by_tensor


def restore(arm: Arm, version: int, recorded: Recorded, exchange: Path, reporter: Reporter) -> None:
    """Bring engine and actor of ``arm``, freshly constructed, to policy ``version``.

    Raises:
        MachineError: a step or a refit does not come out as recorded: this machine is not like that one.
    """
    carry(arm, 0, recorded, exchange)
    for number in range(version):
        reporter.live(f"{arm.name}: repeating step {number + 1} of {version}")
        then = recorded.round(number)
        require_same(f"round {number}", then, arm.actor.replay_step(then.trajectories, then.rewards, number))
    if version:
        carry(arm, version, recorded, exchange)


def carry(arm: Arm, version: int, recorded: Recorded, exchange: Path) -> None:
    """Refit the engine to ``version``, which the actor has.

    Raises:
        MachineError: other digests than those that the evidence has.
    """
    found = by_tensor(refit(arm, version, exchange, Clock(arm.name, version)))
    wanted = recorded.refits(version)
    wrong = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    if wrong:
        raise MachineError(
            f"weights of version {version}, made again",
            found=f"other digests of {', '.join(wrong[:3])}" + (f" and {len(wrong) - 3} more" if wrong[3:] else ""),
            accepted="the recorded digests",
            next_step="Explain the run on a machine like the one that made it, with the same kit.",
        )
