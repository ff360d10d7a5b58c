"""What a rollout engine is, whichever it is: the messages it answers over the spool.

Each method below is one spool call to the engine's worker process; parameters and results are the dataclasses'
fields as JSON.  Logprobs are *sealed*: ``generate`` returns tokens and the digest of the logprobs, and ``reveal`` gives
the patterns later, so that nobody can hand them to the actor before the actor has committed to its own (rule 3).

===============  ==========================================  =================================================
method           parameters                                  result
===============  ==========================================  =================================================
``construct``    model_folder, op_set, settings, gate        :class:`Constructed`; an excluded setting raises
``refit``        path, version, digests                      :class:`Refitted`
``generate``     requests, version                           :class:`Generated`
``score``        sequences, version                          :class:`Sealed`: the engine's own prefill of each
                                                             :class:`WholeSequence`
``reveal``       commitment                                  patterns per sequence, as lists of uint32
``draw``         logits, samples, seed                       counts per token: the sampler alone (rule 6)
``trace``        requests or sequences, version, target      :class:`TracedCall`: that ``generate`` or ``score``, with
                                                             digests of one sequence's rows, op by op
``effective``                                                settings and variables in force now, read back
``loaded``                                                   sha256 of each kernel library in use, by its path
===============  ==========================================  =================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from samebits.observed import Observed
from samebits.traced import Target, Traced

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One sequence to generate. ``sampling`` holds the *final effective* parameters and is gated (RFC WS1)."""

    request_id: str
    prompt_token_ids: list[int]
    max_tokens: int
    seed: int
    """Keys this request's own counter-based random stream: token ``i`` depends on (seed, i) and on nothing else."""
    stop_token_ids: list[int]
    sampling: Mapping[str, Any]
    arrival_step: int = 0
    """The engine step before which this request is not yet visible to the scheduler."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeSequence:
    """One finished sequence to score: prompt and response, and where the response starts."""

    token_ids: list[int]
    prompt_length: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Trajectory:
    """What came of one request: tokens, and the weight version it began and ended under (rule 5)."""

    request_id: str
    token_ids: list[int]
    finish_reason: FinishReason
    weight_version_start: int
    weight_version_end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters:
    """What the scheduler really did; each is an exercised count in the certificate (rule 8)."""

    steps: int
    prefill_tokens: int
    decode_tokens: int
    chunked_prefills: int
    """Sequences whose prefill took more than one step."""
    preemptions: int
    """Sequences thrown out of the cache mid-generation and computed again."""
    cancelled: int
    chunks_inside_window: int
    """Prefill chunks that ended where every compressor of the model had begun a window and not completed it."""
    preemptions_inside_window: int
    """Preemptions there."""
    distinct_batch_sizes: int
    max_running: int
    pages_in_use_max: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Constructed:
    """The engine as built: effective settings (not the ones asked for) and what computes."""

    settings: Mapping[str, Any]
    op_set: str
    dtype: str
    parameters: int
    threads: int
    libraries: Mapping[str, str]
    """Version of each library that computes, for instance ``{"torch": "2.13.0+cpu"}``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Refitted:
    """Digests on the receiving side: ``arrived`` of the file's tensors, ``loaded`` of the materialised parameters.

    Both are empty if ``digests`` was false, as for a baseline, which is only timed.
    """

    version: int
    arrived: Mapping[str, str]
    loaded: Mapping[str, str]
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Sealed:
    """Logprobs that were computed and not shown yet: the digest over all patterns, sequences in request order."""

    commitment: str
    tokens: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Generated:
    """All trajectories of one round, in request order, and the sealed logprobs of their sampled tokens."""

    trajectories: list[Trajectory]
    sealed: Sealed
    counters: Counters
    batch_sizes: list[int] = field(default_factory=list)
    """Tokens computed in each engine step."""
    observed: Observed = field(default_factory=Observed)


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedCall:
    """A ``generate`` or ``score`` that was traced: nothing of it may differ from the same call untraced."""

    traced: Traced
    sealed: Sealed
    trajectories: list[Trajectory] = field(default_factory=list)
    """Of a ``generate``."""


class Tracing(Protocol):
    """A trace while it is made."""

    def result(self) -> Traced:
        """What has been digested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where a rollout is after a step."""

    step: int
    tokens: int
    """Generated so far, all requests together."""
    tokens_per_second: float
    running: int
    waiting: int
    finished: int
    requests: int


OnStep = Callable[[Progress], None]


class Engine(Protocol):
    """A live engine, as its worker holds it.

    A class of this protocol is constructed as ``(model_folder, *, op_set, settings, gate)`` and raises a ``GateError``
    before it touches anything if the settings are not certified.
    """

    @property
    def constructed(self) -> Constructed:
        """What was built, read back from what is in force."""

    def effective(self) -> dict[str, Any]:
        """The settings in force now."""

    def refit(self, path: Path, version: int, *, digests: bool = True) -> Refitted:
        """Take the weights at ``path`` as policy ``version``; refused while requests are in flight (rule 5)."""

    def generate(self, requests: Sequence[Request], version: int, on_step: OnStep | None = None) -> Generated:
        """Generate all ``requests`` to their ends; every one is gated before the first token."""

    def score(self, sequences: Sequence[WholeSequence], version: int) -> Sealed:
        """Logprobs of the response tokens from the engine's own prefill."""

    def reveal(self, commitment: str) -> list[list[int]]:
        """The patterns behind a commitment."""

    def draw(self, logits: Sequence[float], samples: int, seed: int) -> list[int]:
        """Counts per token of the engine's own sampler alone."""

    def tracing(self, target: Target) -> AbstractContextManager[Tracing]:
        """A context in which one ``generate`` or ``score`` is traced; it computes what it would have computed."""

    def close(self) -> None:
        """Free what the engine holds; whatever processes it started are gone afterwards."""
