"""Which call may come when: the order that keeps the training forward before the step (rule 4)."""

from __future__ import annotations

from enum import Enum

from samebits.errors import GateError, InputError


class Stage(Enum):
    """How far the actor is within its policy version; the value says it in a sentence."""

    READY = "before the recompute"
    RECOMPUTED = "after the recompute"
    TRAINED = "after the training forward, with gradients pending"
    STEPPED = "after a step, before its export"


ACCEPTED: dict[Stage, tuple[str, ...]] = {
    Stage.READY: ("recompute", "export", "probe", "trace", "replay_step"),
    Stage.RECOMPUTED: ("train_forward", "export", "probe", "trace"),
    Stage.TRAINED: ("step",),
    Stage.STEPPED: ("export", "probe", "trace", "replay_step"),
}


class Sequence:
    """Policy version and stage of one actor."""

    def __init__(self) -> None:
        self.version = 0
        self.stage = Stage.READY

    def expect(self, method: str, version: int) -> None:
        """Passes a call of ``method`` about ``version`` if both are due now.

        Raises:
            GateError: the call is out of order.
            InputError: the call is about another policy version than the actor's.
        """
        if method not in ACCEPTED[self.stage]:
            raise GateError(
                f"actor.{method}",
                found=f"a call {self.stage.value} of version {self.version}",
                accepted=", ".join(ACCEPTED[self.stage]),
                next_step="Within one policy version: recompute, train_forward, step, export.",
            )
        if version != self.version:
            raise InputError(
                f"actor.{method}.version",
                found=version,
                accepted=self.version,
                next_step="Call with the policy version that the actor holds.",
            )
