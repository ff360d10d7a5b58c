"""The rollout engine ``native``: continuous batching over paged caches, on the CPU, in torch alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils.deterministic

from samebits.engine.native import sampler
from samebits.engine.native.cache import PagedCache
from samebits.engine.native.forward import Forward
from samebits.engine.native.prefill import score
from samebits.engine.native.rollout import Rollout
from samebits.engine.native.settings import certified, check_model
from samebits.engine.native.weights import EngineWeights
from samebits.engine.protocol import Constructed, Generated, OnStep, Refitted, Request, Sealed, WholeSequence
from samebits.engine.requests import check_draw, check_requests, check_sequences
from samebits.engine.vault import Vault
from samebits.errors import GateError
from samebits.gate import request as gate_request
from samebits.models import open_folder
from samebits.ops import open_op_set
from samebits.ops.tracing import Tracing
from samebits.traced import Target


class NativeEngine:
    """One model under one op set.  Not thread-safe: one call at a time, and from within ``on_step`` only ``cancel``.

    Raises:
        GateError: ``settings`` are not what the row's ``gate`` table accepts, or not what this engine can do.
        InputError: no such op set, or a model folder that is not whole.
    """

    def __init__(
        self, model_folder: Path, *, op_set: str, settings: Mapping[str, Any], gate: Mapping[str, Any]
    ) -> None:
        self.settings = certified(settings, gate)
        ops = open_op_set(op_set)
        decoder, tensors = open_folder(model_folder)
        check_model(self.settings, decoder)
        _be_deterministic(self.settings.threads)
        self.weights = EngineWeights(decoder, tensors)
        cache = PagedCache(
            decoder,
            pages=self.settings.num_gpu_blocks,
            page_size=self.settings.block_size,
            dtype=self.weights.dtype,
        )
        self._forward = Forward(
            decoder=decoder,
            ops=ops,
            weights=self.weights.tensors,
            cache=cache,
            key_slots=self.settings.max_model_len,
        )
        self._vault = Vault()
        self._rollout: Rollout | None = None

    @property
    def constructed(self) -> Constructed:
        """What was built, read back from what is in force."""
        return Constructed(
            settings=self.effective(),
            op_set=self._forward.ops.name,
            dtype=str(self.weights.dtype).removeprefix("torch."),
            parameters=self.weights.parameters,
            threads=torch.get_num_threads(),
            libraries={"numpy": np.__version__, "torch": str(torch.__version__)},
        )

    def effective(self) -> dict[str, Any]:
        """The settings in force now."""
        return {**self.settings.effective(), "threads": torch.get_num_threads()}

    def refit(self, path: Path, version: int, *, digests: bool = True) -> Refitted:
        """Take the weights of the safetensors file at ``path`` as policy ``version``.

        Raises:
            GateError: requests are in flight: their trajectories would begin and end under different weights (rule 5).
            InputError: see :meth:`EngineWeights.refit`.
        """
        if self._rollout is not None and self._rollout.scheduler.in_flight:
            raise GateError(
                "engine.refit",
                found=f"{self._rollout.scheduler.in_flight} request(s) in flight",
                accepted="none",
                next_step="Let them finish or cancel them first: a trajectory has one weight version (rule 5).",
            )
        return self.weights.refit(path, version, verify=digests)

    def generate(self, requests: Sequence[Request], version: int, on_step: OnStep | None = None) -> Generated:
        """Generate all ``requests`` to their ends under weight ``version``; the logprobs stay sealed.

        ``on_step`` is called after every step, and may cancel requests.

        Raises:
            GateError: a request that is not certified, by its id and field; then nothing was generated.
            InputError: a request that cannot be generated, or another weight version than the one loaded.
            MachineError: the model's logits are no distribution.
        """
        check_requests(
            requests,
            max_model_len=self.settings.max_model_len,
            vocab_size=self._forward.decoder.vocab_size,
            rules=gate_request.SMOKE_RULES if self.settings.sampling_mode == "smoke" else gate_request.RULES,
        )
        self.weights.require(version)
        began = time.perf_counter()
        rollout = self._rollout = Rollout.of(requests, self.settings, self._forward, self.weights)
        try:
            with torch.no_grad():
                rollout.run(on_step)
        finally:
            self._rollout = None
        sequences = rollout.scheduler.sequences
        return Generated(
            trajectories=[rollout.trajectory(sequence) for sequence in sequences],
            sealed=self._vault.seal(
                [rollout.response_patterns(sequence) for sequence in sequences], seconds=time.perf_counter() - began
            ),
            counters=rollout.scheduler.counters(),
            batch_sizes=rollout.scheduler.batch_sizes,
            observed=rollout.observed(),
        )

    def cancel(self, request_id: str) -> bool:
        """End a request of the running ``generate``; false if there is none of that name in flight."""
        return self._rollout is not None and self._rollout.scheduler.cancel(request_id)

    def score(self, sequences: Sequence[WholeSequence], version: int) -> Sealed:
        """Logprobs of the response tokens from this engine's own prefill of each whole sequence, sealed.

        Raises:
            InputError: a sequence that cannot be scored, or another weight version than the one loaded.
        """
        check_sequences(
            sequences, max_model_len=self.settings.max_model_len, vocab_size=self._forward.decoder.vocab_size
        )
        self.weights.require(version)
        began = time.perf_counter()
        with torch.no_grad():
            patterns = score(sequences, self.settings, self._forward)
        return self._vault.seal(patterns, seconds=time.perf_counter() - began)

    def reveal(self, commitment: str) -> list[list[int]]:
        """The patterns behind a commitment, per sequence.

        Raises:
            InputError: this engine never committed to that.
        """
        return self._vault.reveal(commitment)

    def draw(self, logits: Sequence[float], samples: int, seed: int) -> list[int]:
        """See :func:`draw`: the sampler knows neither model nor batch."""
        return draw(logits, samples=samples, seed=seed)

    @contextmanager
    def tracing(self, target: Target) -> Iterator[Tracing]:
        """Within, one ``generate`` or ``score`` is traced."""
        untraced, tracing = self._forward, Tracing(target)
        self._forward = replace(untraced, tracing=tracing)
        try:
            yield tracing
        finally:
            self._forward = untraced

    def close(self) -> None:
        """Nothing to free but memory."""


def draw(logits: Sequence[float], *, samples: int, seed: int) -> list[int]:
    """How often the sampler picks each token in ``samples`` draws from the softmax of ``logits`` (rule 6).

    Raises:
        InputError: no logits, or none that is finite.
    """
    row = check_draw(logits, samples=samples, seed=seed)
    counts: list[int] = sampler.draw(row, samples=samples, seed=seed).tolist()
    return counts


def _be_deterministic(threads: int) -> None:
    """For this whole process: ``threads`` for every op, and only algorithms whose sums have one order."""
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    # Else every new tensor is filled with NaN first, which finds faults but costs a write per tensor.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # a module property
