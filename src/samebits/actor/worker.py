"""The actor's own process: ``python -m samebits.actor.worker SPOOL`` answers the calls of ``protocol``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from samebits.actor.actor import NativeActor
from samebits.actor.policy import Progress as PackProgress
from samebits.actor.protocol import (
    Computed,
    Constructed,
    Exported,
    Probed,
    Replayed,
    Side,
    Stepped,
    Tokens,
    TracedSide,
)
from samebits.actor.settings import MEGATRON
from samebits.environment import loaded_libraries
from samebits.environment.deciding import deciding_variables
from samebits.spool import Handler, Live, Progress, from_message, serve
from samebits.traced import Target

Parameters = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Construct:
    model_folder: str
    op_set: str
    settings: Mapping[str, Any]
    max_model_len: int
    gate: Mapping[str, Any]
    switches: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Recompute:
    trajectories: list[Tokens]
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rewarded:
    trajectories: list[Tokens]
    rewards: list[float]
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Export:
    path: str
    version: int
    digests: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Probe:
    layer: int
    trajectories: list[Tokens]
    version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trace:
    side: Side
    trajectories: list[Tokens]
    version: int
    target: Target


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reveal:
    commitment: str


class ActorWorker:
    """Holds the live actor; a ``construct`` that is refused leaves it as it is."""

    def __init__(self) -> None:
        self._live = Live[NativeActor]("actor")

    def handlers(self) -> dict[str, Handler]:
        """Every method of the protocol."""
        return {
            "construct": self._construct,
            "recompute": self._recompute,
            "train_forward": self._train_forward,
            "step": self._step,
            "export": self._export,
            "probe": self._probe,
            "trace": self._trace,
            "reveal": self._reveal,
            "loaded": lambda _, __: {"libraries": loaded_libraries()},
            "replay_step": self._replay_step,
            "effective": self._effective,
        }

    def _construct(self, parameters: Parameters, _: Progress) -> Constructed:
        asked = from_message(_Construct, parameters, where="construct")
        actor = _kind_of(asked.settings).open(
            Path(asked.model_folder),
            op_set=asked.op_set,
            settings=asked.settings,
            max_model_len=asked.max_model_len,
            gate=asked.gate,
            switches=asked.switches,
        )
        self._live.held = actor
        return actor.constructed()

    def _recompute(self, parameters: Parameters, progress: Progress) -> Computed:
        asked = from_message(_Recompute, parameters, where="recompute")
        return self._live.it.recompute(asked.trajectories, asked.version, _packs(progress))

    def _train_forward(self, parameters: Parameters, progress: Progress) -> Computed:
        asked = from_message(_Rewarded, parameters, where="train_forward")
        return self._live.it.train_forward(asked.trajectories, asked.rewards, asked.version, _packs(progress))

    def _step(self, parameters: Parameters, _: Progress) -> Stepped:
        return self._live.it.step(from_message(_Step, parameters, where="step").version)

    def _export(self, parameters: Parameters, _: Progress) -> Exported:
        asked = from_message(_Export, parameters, where="export")
        return self._live.it.export(Path(asked.path), asked.version, digests=asked.digests)

    def _probe(self, parameters: Parameters, _: Progress) -> Probed:
        asked = from_message(_Probe, parameters, where="probe")
        return self._live.it.probe(asked.layer, asked.trajectories, asked.version)

    def _trace(self, parameters: Parameters, _: Progress) -> TracedSide:
        asked = from_message(_Trace, parameters, where="trace")
        return self._live.it.trace(asked.side, asked.trajectories, asked.version, asked.target)

    def _reveal(self, parameters: Parameters, _: Progress) -> Parameters:
        return {"patterns": self._live.it.reveal(from_message(_Reveal, parameters, where="reveal").commitment)}

    def _effective(self, _: Parameters, __: Progress) -> Parameters:
        built = self._live.it.constructed()
        return {
            "settings": {**built.settings, "op_set": built.op_set, "threads": built.threads},
            "environment": deciding_variables(),
        }

    def _replay_step(self, parameters: Parameters, progress: Progress) -> Replayed:
        asked = from_message(_Rewarded, parameters, where="replay_step")
        return self._live.it.replay_step(asked.trajectories, asked.rewards, asked.version, _packs(progress))


def _kind_of(settings: Mapping[str, Any]) -> type[NativeActor]:
    """The actor that ``settings`` ask for; a kind that nobody knows is the gate's to refuse."""
    if settings.get("kind") != MEGATRON:
        return NativeActor
    from samebits.actor.megatron.actor import MegatronActor  # noqa: PLC0415  # most rows never need it

    return MegatronActor


def _packs(progress: Progress) -> PackProgress:
    return lambda done, total: progress(packs=done, of=total)


def main(arguments: list[str]) -> None:
    """Serve the spool folder named on the command line until the parent says ``shutdown``."""
    if len(arguments) != 1:
        sys.exit("usage: python -m samebits.actor.worker SPOOL")
    torch.set_num_interop_threads(1)
    serve(Path(arguments[0]), ActorWorker().handlers())


if __name__ == "__main__":
    main(sys.argv[1:])
