"""Nothing turns between construction and the end: settings and variables of all workers are read back round by round.

A gate judges what is asked for.  What is in force later, a library, a callback or a flipped variable may have changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from samebits.certify.arm import Arm
from samebits.errors import GateError

State = Mapping[str, Any]
"""What one worker's ``effective`` says, flat: ``settings.threads``, ``environment.OMP_NUM_THREADS``."""


class Unchanged:
    """What was in force in both workers of an arm when they had just been constructed."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        self._first = _read(arm)

    def check(self) -> None:
        """Nothing if all of it still is.

        Raises:
            GateError: the first thing that is not.
        """
        for worker, now in _read(self._arm).items():
            before = self._first[worker]
            for name in sorted(before.keys() | now.keys()):
                if before.get(name) != now.get(name):
                    raise GateError(
                        f"{worker}-{self._arm.name}: {name}",
                        found=json.dumps(now.get(name)),
                        accepted=f"{json.dumps(before.get(name))}, as when it was constructed",
                        next_step="Find what changes it during the run; start again with it in its certified place.",
                    )


def _read(arm: Arm) -> dict[str, State]:
    return {name: _flat(client.effective()) for name, client in (("engine", arm.engine), ("actor", arm.actor))}


def _flat(said: Mapping[str, Any]) -> State:
    return {f"{group}.{name}": value for group, values in said.items() for name, value in values.items()}
