"""The engine's own process: ``python -m samebits.engine.worker SPOOL`` answers the calls of ``protocol``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch

from samebits.engine.protocol import (
    Constructed,
    Engine,
    Generated,
    Refitted,
    Request,
    Sealed,
    TracedCall,
    Trajectory,
    WholeSequence,
)
from samebits.environment import loaded_libraries
from samebits.environment.deciding import deciding_variables
from samebits.errors import GateError
from samebits.spool import Handler, Live, Progress, from_message, serve
from samebits.traced import Target

Parameters = Mapping[str, Any]

ENGINES: Final = {"native": "samebits.engine.native", "vllm": "samebits.engine.vllm"}
"""By the setting ``kind``: the package whose ``ENGINE`` is constructed; imported only then, each has its own stack."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Construct:
    model_folder: str
    op_set: str
    settings: Mapping[str, Any]
    gate: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Refit:
    path: str
    version: int
    digests: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Generate:
    requests: list[Request]
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Score:
    sequences: list[WholeSequence]
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trace:
    version: int
    target: Target
    requests: list[Request]
    sequences: list[WholeSequence]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Draw:
    logits: list[float]
    samples: int
    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reveal:
    commitment: str


class EngineWorker:
    """Holds the live engine; a ``construct`` that is refused leaves it as it is."""

    def __init__(self) -> None:
        self._live = Live[Engine]("engine")

    def handlers(self) -> dict[str, Handler]:
        """Every method of the protocol."""
        return {
            "construct": self._construct,
            "refit": self._refit,
            "generate": self._generate,
            "score": self._score,
            "reveal": self._reveal,
            "loaded": lambda _, __: {"libraries": loaded_libraries()},
            "draw": self._draw,
            "trace": self._trace,
            "effective": self._effective,
        }

    def _construct(self, parameters: Parameters, _: Progress) -> Constructed:
        asked = from_message(_Construct, parameters, where="construct")
        live = _kind(asked.settings)(
            Path(asked.model_folder), op_set=asked.op_set, settings=asked.settings, gate=asked.gate
        )
        if self._live.held is not None:
            self._live.held.close()
        self._live.held = live
        return live.constructed

    def _refit(self, parameters: Parameters, _: Progress) -> Refitted:
        asked = from_message(_Refit, parameters, where="refit")
        return self._live.it.refit(Path(asked.path), asked.version, digests=asked.digests)

    def _generate(self, parameters: Parameters, progress: Progress) -> Generated:
        asked = from_message(_Generate, parameters, where="generate")
        return self._live.it.generate(asked.requests, asked.version, lambda now: progress(**asdict(now)))

    def _score(self, parameters: Parameters, _: Progress) -> Sealed:
        asked = from_message(_Score, parameters, where="score")
        return self._live.it.score(asked.sequences, asked.version)

    def _reveal(self, parameters: Parameters, _: Progress) -> Parameters:
        return {"patterns": self._live.it.reveal(from_message(_Reveal, parameters, where="reveal").commitment)}

    def _draw(self, parameters: Parameters, _: Progress) -> Parameters:
        asked = from_message(_Draw, parameters, where="draw")
        return {"counts": self._live.it.draw(asked.logits, asked.samples, asked.seed)}

    def _trace(self, parameters: Parameters, _: Progress) -> TracedCall:
        asked = from_message(_Trace, parameters, where="trace")
        trajectories: list[Trajectory] = []
        with self._live.it.tracing(asked.target) as tracing:
            if asked.requests:  # of the two lists, one is empty
                generated = self._live.it.generate(asked.requests, asked.version)
                trajectories, sealed = generated.trajectories, generated.sealed
            else:
                sealed = self._live.it.score(asked.sequences, asked.version)
        return TracedCall(traced=tracing.result(), sealed=sealed, trajectories=trajectories)

    def _effective(self, _: Parameters, __: Progress) -> Parameters:
        return {"settings": self._live.it.effective(), "environment": deciding_variables()}


def _kind(settings: Mapping[str, Any]) -> Callable[..., Engine]:
    kind = settings.get("kind")
    if kind not in ENGINES:
        raise GateError(
            "engine.kind",
            found=repr(kind)[:120],
            accepted=" or ".join(map(repr, ENGINES)),
            next_step="Use an accepted value; there is no other engine.",
        )
    found: Callable[..., Engine] = importlib.import_module(ENGINES[kind]).ENGINE
    return found


def main(arguments: list[str]) -> None:
    """Serve the spool folder named on the command line until the parent says ``shutdown``."""
    if len(arguments) != 1:
        sys.exit("usage: python -m samebits.engine.worker SPOOL")
    torch.set_num_interop_threads(1)
    serve(Path(arguments[0]), EngineWorker().handlers())


if __name__ == "__main__":
    main(sys.argv[1:])
