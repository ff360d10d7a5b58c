"""The rollout engine ``vllm``: the real one, in this process, stepped by the kit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from samebits.engine.protocol import Constructed, Generated, OnStep, Refitted, Request, Sealed, WholeSequence
from samebits.engine.requests import check_draw, check_requests, check_sequences
from samebits.engine.settings import WHERE
from samebits.engine.vault import Vault
from samebits.engine.vllm.architecture import accepted
from samebits.engine.vllm.arguments import arguments
from samebits.engine.vllm.faults import reported
from samebits.engine.vllm.settings import certified
from samebits.engine.vllm.variables import Device, enter, installed, variables
from samebits.errors import GateError
from samebits.models.folder import config_dtype
from samebits.recipe.model import VllmSettings
from samebits.traced import Target

if TYPE_CHECKING:
    from samebits.engine.vllm.rollout import Rollout
    from samebits.engine.vllm.tracing import ModuleTracing


class VllmEngine:
    """One model on one vLLM.  Not thread-safe: one call at a time, and from within ``on_step`` only ``cancel``.

    Raises:
        GateError: settings that the row's ``gate`` table, this adapter or vLLM itself does not accept, an architecture
            that is not certified, or a live engine that is not what was asked for.
        InputError: a model folder that is not whole.
        MachineError: vLLM failed to start.
        RowError: no vLLM is installed here.
    """

    def __init__(
        self, model_folder: Path, *, op_set: str, settings: Mapping[str, Any], gate: Mapping[str, Any]
    ) -> None:
        self.settings = certified(settings, gate)
        self.op_set = op_set
        config, decoder = accepted(model_folder)
        self._vocab_size = decoder.vocab_size
        self.version, device = installed()
        _check_device(self.settings, device)
        enter(variables(self.settings, device))
        torch.set_num_threads(self.settings.threads)
        # From here on vLLM may be imported.
        from samebits.engine.vllm import effective, live, watch, weights  # noqa: PLC0415

        with reported("construct"):
            wanted = live.configured(arguments(self.settings, model_folder, config))
            self._live = live.alone(wanted)
        self._effective = effective
        try:
            effective.check(self._live, self.settings, config_dtype(config))
            self._watch = watch.Watch(self._live.scheduler)
            self._weights = weights.VllmWeights(self._live, decoder, config_dtype(config), self.settings)
        except BaseException:
            self._live.close()
            raise
        self._vault = Vault()
        self._rollout: Rollout | None = None
        self._tracing: ModuleTracing | None = None

    @property
    def constructed(self) -> Constructed:
        """What was built, read back from what is in force."""
        return Constructed(
            settings=self.effective(),
            op_set=self.op_set,
            dtype=str(self._weights.dtype).removeprefix("torch."),
            parameters=self._weights.parameters,
            threads=torch.get_num_threads(),
            libraries={"numpy": np.__version__, "torch": str(torch.__version__), "vllm": self.version},
        )

    def effective(self) -> dict[str, Any]:
        """The settings in force now, read from the live engine."""
        return self._effective.effective(self._live, self.settings)

    def refit(self, path: Path, version: int, *, digests: bool = True) -> Refitted:
        """Take the weights of the safetensors file at ``path`` as policy ``version``.

        Pages computed under the old weights are given up afterwards.

        Raises:
            GateError: requests are in flight: their trajectories would begin and end under different weights (rule 5).
            InputError: a version that is in use, or tensors that are not this model's.
            MachineError: vLLM failed to take them.
        """
        running = self._rollout.in_flight if self._rollout is not None else 0
        if running or self._live.engine.has_unfinished_requests():
            raise GateError(
                "engine.refit",
                found=f"{max(running, 1)} request(s) in flight",
                accepted="none",
                next_step="Let them finish or cancel them first: a trajectory has one weight version (rule 5).",
            )
        refitted = self._weights.refit(path, version, verify=digests)
        with reported("refit"):
            if not self._live.engine.reset_prefix_cache():
                raise RuntimeError("the prefix cache could not be reset: pages are still in use")
        return refitted

    def generate(self, requests: Sequence[Request], version: int, on_step: OnStep | None = None) -> Generated:
        """Generate all ``requests`` to their ends under weight ``version``; the logprobs stay sealed.

        ``on_step`` is called after every step, and may cancel requests.

        Raises:
            GateError: a request that is not certified, as asked or after vLLM's own defaults; nothing was generated.
            InputError: a request that cannot be generated, or another weight version than the one loaded.
            MachineError: the engine core failed.
        """
        from samebits.engine.vllm.rollout import Rollout  # noqa: PLC0415 - imports vLLM

        check_requests(requests, max_model_len=self.settings.max_model_len, vocab_size=self._vocab_size)
        self._weights.require(version)
        began = time.perf_counter()
        rollout = self._rollout = Rollout(requests, self._live, self._watch, version)
        if self._tracing is not None:
            self._tracing.follow(requests[self._tracing.recorder.target.sequence].request_id)
        try:
            rollout.run(on_step)
        except BaseException:
            rollout.cancel_all()
            raise
        finally:
            self._rollout = None
        patterns = rollout.patterns()
        if self._tracing is not None:
            at = self._tracing.recorder.target.sequence
            self._tracing.drawn(len(requests[at].prompt_token_ids), patterns[at])
        return Generated(
            trajectories=rollout.trajectories(),
            sealed=self._vault.seal(patterns, seconds=time.perf_counter() - began),
            counters=self._watch.counters(),
            batch_sizes=self._watch.batch_sizes,
        )

    def cancel(self, request_id: str) -> bool:
        """End a request of the running ``generate``; false if there is none of that name in flight."""
        return self._rollout is not None and self._rollout.cancel(request_id)

    def score(self, sequences: Sequence[WholeSequence], version: int) -> Sealed:
        """Logprobs of the response tokens from vLLM's own prefill of each whole sequence, sealed.

        Raises:
            InputError: a sequence that cannot be scored, or another weight version than the one loaded.
            MachineError: the engine core failed.
        """
        from samebits.engine.vllm.score import score  # noqa: PLC0415 - imports vLLM

        # vLLM draws at least one token behind a prompt, and that needs a position too.
        check_sequences(sequences, max_model_len=self.settings.max_model_len - 1, vocab_size=self._vocab_size)
        self._weights.require(version)
        began = time.perf_counter()
        if self._tracing is not None:
            self._tracing.follow(f"score-{self._tracing.recorder.target.sequence}")
        patterns = score(sequences, self.settings, self._live)
        if self._tracing is not None:
            at = self._tracing.recorder.target.sequence
            self._tracing.drawn(sequences[at].prompt_length, patterns[at])
        return self._vault.seal(patterns, seconds=time.perf_counter() - began)

    def reveal(self, commitment: str) -> list[list[int]]:
        """The patterns behind a commitment, per sequence.

        Raises:
            InputError: this engine never committed to that.
        """
        return self._vault.reveal(commitment)

    def draw(self, logits: Sequence[float], samples: int, seed: int) -> list[int]:
        """How often vLLM's sampler picks each token in ``samples`` draws from the softmax of ``logits`` (rule 6).

        Raises:
            InputError: no logits, or none that is finite.
        """
        from samebits.engine.vllm.sampler import draw  # noqa: PLC0415 - imports vLLM

        check_draw(logits, samples=samples, seed=seed)
        with reported("draw"):
            return draw(self._live, logits, samples, seed, is_v2=self._effective.is_v2(self._live))

    @contextmanager
    def tracing(self, target: Target) -> Iterator[ModuleTracing]:
        """Within, one ``generate`` or ``score`` is traced.

        Raises:
            GateError: the engine runs in CUDA graphs or compiled code, where nothing can watch.
        """
        from samebits.engine.vllm.tracing import ModuleTracing  # noqa: PLC0415 - imports vLLM

        mode = (self.settings.cudagraph_mode, self.settings.compilation_mode)
        if mode != ("NONE", 0) and not self.settings.enforce_eager:
            raise GateError(
                f"{WHERE}.cudagraph_mode, {WHERE}.compilation_mode",
                found=f"{mode[0]!r}, {mode[1]}",
                accepted="'NONE', 0 while ops are traced",
                next_step="Construct the engine without graphs, and see whether its bits are the same.",
            )
        self._tracing = ModuleTracing(self._live, self._watch, target)
        try:
            with self._tracing.hooked():
                yield self._tracing
        finally:
            self._tracing = None

    def close(self) -> None:
        """End the engine core and free its memory."""
        self._live.close()


def _check_device(settings: VllmSettings, device: Device) -> None:
    """What depends on what vLLM was built for.

    Raises:
        GateError: a setting that this build cannot do.
    """
    if device == "cpu" and settings.refit == "in_place":
        raise GateError(
            f"{WHERE}.refit",
            found="'in_place'",
            accepted="'file'",
            next_step="A CPU build packs its weights once they are loaded; only a reload can replace them.",
        )
    if device == "cpu" and os.environ.get("OMP_NUM_THREADS") != str(settings.threads):
        # Its C++ kernels ask OpenMP, which torch.set_num_threads does not reach.
        raise GateError(
            f"{WHERE}.threads",
            found=f"{settings.threads}, and OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', '')} in the worker",
            accepted="the same number in both",
            next_step="Give engine and actor the same number of threads: their workers are started with the larger.",
        )
    if device == "cuda" and settings.attention_split_kv:
        raise GateError(
            f"{WHERE}.attention_split_kv",
            found="True",
            accepted="False",
            next_step="It is a switch of CPU builds; nothing on this one reads it.",
        )
