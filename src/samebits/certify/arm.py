"""One arm of a certification: an engine worker and an actor worker that share an op set.

The *aligned* arm runs the certified op set.  The *control* arm is the same recipe with exactly the aligned switch off
(rule 11); on CPU rows it is the overhead's baseline too (rule 9).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from samebits.actor import protocol as actor
from samebits.engine import protocol as engine
from samebits.environment import Launcher
from samebits.pins import Row, exactly
from samebits.recipe import Recipe
from samebits.spool import Worker, from_message, to_message
from samebits.traced import Target

ArmName = Literal["aligned", "control", "baseline"]
COMPARED: Final[tuple[ArmName, ...]] = ("aligned", "control")
"""Arms whose bits are compared; a baseline is only timed."""
ARMS: Final[tuple[ArmName, ...]] = get_args(ArmName)

Progress = Callable[[Mapping[str, Any]], None]
CALL_TIMEOUT: Final = 1800.0
"""Seconds a single call may take; a worker that hangs with a beating heart is ended by it."""


class EngineClient:
    """``engine.protocol`` from the parent's side."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def construct(self, **parameters: Any) -> engine.Constructed:
        return from_message(engine.Constructed, self._call("construct", parameters))

    def refit(self, path: Path, version: int, *, digests: bool = True) -> engine.Refitted:
        parameters = {"path": str(path), "version": version, "digests": digests}
        return from_message(engine.Refitted, self._call("refit", parameters))

    def generate(
        self,
        requests: Sequence[engine.Request],
        version: int,
        progress: Progress | None = None,
    ) -> engine.Generated:
        parameters = {"requests": [to_message(request) for request in requests], "version": version}
        return from_message(engine.Generated, self._call("generate", parameters, progress))

    def score(self, sequences: Sequence[engine.WholeSequence], version: int) -> engine.Sealed:
        parameters = {"sequences": [to_message(sequence) for sequence in sequences], "version": version}
        return from_message(engine.Sealed, self._call("score", parameters))

    def reveal(self, commitment: str) -> list[list[int]]:
        return _patterns(self._call("reveal", {"commitment": commitment}))

    def trace(
        self,
        what: Sequence[engine.Request] | Sequence[engine.WholeSequence],
        version: int,
        target: Target,
    ) -> engine.TracedCall:
        asked: dict[str, list[Any]] = {"requests": [], "sequences": []}
        for one in what:
            asked["requests" if isinstance(one, engine.Request) else "sequences"].append(to_message(one))
        parameters = {**asked, "version": version, "target": to_message(target)}
        return from_message(engine.TracedCall, self._call("trace", parameters))

    def loaded(self) -> dict[str, str]:
        return dict(self._call("loaded", {})["libraries"])

    def effective(self) -> dict[str, Any]:
        return self._call("effective", {})

    def draw(self, logits: Sequence[float], samples: int, seed: int) -> list[int]:
        reply = self._call("draw", {"logits": list(logits), "samples": samples, "seed": seed})
        return [int(count) for count in reply["counts"]]

    def _call(self, method: str, parameters: Mapping[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        return self.worker.call(method, parameters, timeout=CALL_TIMEOUT, on_progress=progress)


class ActorClient:
    """``actor.protocol`` from the parent's side."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def construct(self, **parameters: Any) -> actor.Constructed:
        return from_message(actor.Constructed, self._call("construct", parameters))

    def recompute(self, trajectories: Sequence[actor.Tokens], version: int) -> actor.Computed:
        return from_message(actor.Computed, self._call("recompute", _trajectories(trajectories, version)))

    def train_forward(
        self,
        trajectories: Sequence[actor.Tokens],
        rewards: Sequence[float],
        version: int,
    ) -> actor.Computed:
        parameters = {**_trajectories(trajectories, version), "rewards": list(rewards)}
        return from_message(actor.Computed, self._call("train_forward", parameters))

    def step(self, version: int) -> actor.Stepped:
        return from_message(actor.Stepped, self._call("step", {"version": version}))

    def replay_step(
        self,
        trajectories: Sequence[actor.Tokens],
        rewards: Sequence[float],
        version: int,
    ) -> actor.Replayed:
        parameters = {**_trajectories(trajectories, version), "rewards": list(rewards)}
        return from_message(actor.Replayed, self._call("replay_step", parameters))

    def export(self, path: Path, version: int, *, digests: bool = True) -> actor.Exported:
        parameters = {"path": str(path), "version": version, "digests": digests}
        return from_message(actor.Exported, self._call("export", parameters))

    def effective(self) -> dict[str, Any]:
        return self._call("effective", {})

    def trace(
        self, side: actor.Side, trajectories: Sequence[actor.Tokens], version: int, target: Target
    ) -> actor.TracedSide:
        parameters = {**_trajectories(trajectories, version), "side": side, "target": to_message(target)}
        return from_message(actor.TracedSide, self._call("trace", parameters))

    def probe(self, layer: int, trajectories: Sequence[actor.Tokens], version: int) -> actor.Probed:
        parameters = {**_trajectories(trajectories, version), "layer": layer}
        return from_message(actor.Probed, self._call("probe", parameters))

    def reveal(self, commitment: str) -> list[list[int]]:
        return _patterns(self._call("reveal", {"commitment": commitment}))

    def loaded(self) -> dict[str, str]:
        return dict(self._call("loaded", {})["libraries"])

    def _call(self, method: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return self.worker.call(method, parameters, timeout=CALL_TIMEOUT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """Both workers, constructed, before any round."""

    name: ArmName
    engine_built: engine.Constructed
    actor_built: actor.Constructed
    engine: EngineClient
    actor: ActorClient


@contextlib.contextmanager
def workers(
    name: ArmName, scratch: Path, *, threads: int, launcher: Launcher
) -> Iterator[tuple[EngineClient, ActorClient]]:
    """Both worker processes of an arm, started and, however this ends, reaped.

    ``scratch`` receives their spools and logs.  They import torch side by side; the first call waits for them.
    """
    environment = launcher.environment(threads)
    with contextlib.ExitStack() as stack:
        started = []
        for side in ("engine", "actor"):
            label = f"{side}-{name}"
            spool = scratch / "spool" / label
            worker = Worker.start(
                name=label,
                command=launcher.command(f"samebits.{side}.worker", str(spool)),
                spool=spool,
                log=scratch / "logs" / f"{label}.log",
                environment=environment,
                wait=False,
            )
            started.append(stack.enter_context(worker))
        yield EngineClient(started[0]), ActorClient(started[1])


def construct(
    clients: tuple[EngineClient, ActorClient], *, name: ArmName, recipe: Recipe, row: Row, model: Path
) -> Arm:
    """Construct both sides of an arm; its op set is what the row's aligned switch says.

    Raises:
        GateError: the recipe asks for what the row does not certify.
    """
    engine_client, actor_client = clients
    return Arm(
        name=name,
        engine=engine_client,
        actor=actor_client,
        engine_built=engine_client.construct(**engine_parameters(name, recipe, row, model)),
        actor_built=actor_client.construct(**actor_parameters(name, recipe, row, model)),
    )


def engine_parameters(name: ArmName, recipe: Recipe, row: Row, model: Path) -> dict[str, Any]:
    """What the engine of arm ``name`` is constructed with."""
    settings, gate = recipe.engine.model_dump(), row.gate.engine_rules(recipe.model.family)
    laid_over = _turned(name, row) | recipe.past_the_gate
    if name == "baseline" and recipe.baseline is not None:
        laid_over |= recipe.baseline.engine
    return {
        "model_folder": str(model),
        "op_set": _op_set(name, row),
        "settings": settings | laid_over,
        # What an unaligned arm must be able to do is what no certified engine may.
        "gate": gate | exactly(laid_over),
    }


def actor_parameters(name: ArmName, recipe: Recipe, row: Row, model: Path) -> dict[str, Any]:
    """What the actor of arm ``name`` is constructed with: the engine's number of key slots is its own too (rule 8)."""
    return {
        "model_folder": str(model),
        "op_set": _op_set(name, row),
        "settings": recipe.actor.model_dump(),
        "switches": _switches(name, row),
        "max_model_len": recipe.engine.max_model_len,
        "gate": row.gate.actor_rules(recipe.actor.kind),
    }


def _position(name: ArmName, row: Row) -> str | bool:
    return row.switch.aligned if name == "aligned" else row.switch.control


def _op_set(name: ArmName, row: Row) -> str:
    return str(_position(name, row)) if row.switch.name == "op_set" else str(row.op_set)


def _switches(name: ArmName, row: Row) -> dict[str, str | bool]:
    """The switch as a setting; where it is the op set, that says it already."""
    return {} if row.switch.name == "op_set" else {row.switch.name: _position(name, row)}


def _turned(name: ArmName, row: Row) -> dict[str, Any]:
    return {} if name == "aligned" else _switches(name, row)


def _trajectories(trajectories: Sequence[actor.Tokens], version: int) -> dict[str, Any]:
    return {"trajectories": [to_message(trajectory) for trajectory in trajectories], "version": version}


def _patterns(reply: Mapping[str, Any]) -> list[list[int]]:
    return [[int(pattern) for pattern in row] for row in reply["patterns"]]
