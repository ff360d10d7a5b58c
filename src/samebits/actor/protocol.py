"""What the policy worker answers over the spool.

The actor receives token ids and rewards, never the rollout's logprobs; the method signatures leave no place for them
(rule 3).  Recompute and training forward are sealed like the engine's logprobs: commitment now, patterns on
``reveal``.  Within one policy version the calls come in the order ``recompute``, ``train_forward``, ``step``,
``export``; anything else raises, so a training forward can never be taken after the step (rule 4).

=================  ===================================  =========================================================
method             parameters                           result
=================  ===================================  =========================================================
``construct``      model_folder, op_set, settings,      :class:`Constructed`; an excluded setting raises, and a
                   max_model_len, gate, switches        live actor stays as it is
``recompute``      trajectories, version                :class:`Computed`: forward only, one packing
``train_forward``  trajectories, rewards, version       :class:`Computed`: the loss' own forward, another packing;
                                                        gradients are accumulated, no step yet
``step``           version                              :class:`Stepped`: the optimizer step to ``version + 1``
``export``         path, version, digests               :class:`Exported`: writes the deployed weights
``probe``          layer, trajectories, version         :class:`Probed`: rule 3's one-ulp probe, weights restored
``trace``          side, trajectories, version, target  :class:`TracedSide`: ``recompute`` or ``train`` once more,
                                                        with digests of one trajectory's rows, op by op
``reveal``         commitment                           patterns per trajectory, as lists of uint32
``replay_step``    trajectories, rewards, version       :class:`Replayed`: a resumed run's way back
``effective``                                           settings and variables in force now, read back
``loaded``                                              sha256 of each kernel library in use, by its path
=================  ===================================  =========================================================

``version`` is always the policy version that the call is about, and must be the actor's own: 0 after ``construct``,
one more after each ``step``, so what ``step(version=v)`` made is written by ``export(version=v + 1)``.

``switches`` are the op set's own (none by default): on vLLM rows the aligned switch, by its name there.

``max_model_len`` is the number of key slots of every attention; it must be the engine's (rule 8).

``export``, ``probe`` and ``trace`` are taken whenever no gradient is pending, that is, always but between
``train_forward`` and ``step``.  A stepped version is exported before anything is computed on it.

``replay_step`` restores trainer state when a run resumes: a fresh actor repeats ``recompute``, ``train_forward`` and
``step`` of each finished round, from the recorded tokens and rewards.  Nothing of it can be revealed.  It returns
both commitments; the parent compares them with the recorded ones, then exports and compares digests.  It is taken
where ``recompute`` is, and also right after a step, since versions in between need no export.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from samebits.observed import Observed
from samebits.traced import Traced

Side = Literal["recompute", "train"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """One trajectory as the actor sees it: ids, where the response starts, and its group. No logprobs."""

    request_id: str
    token_ids: list[int]
    prompt_length: int
    group: int
    """Trajectories of one group answer one problem; advantages are normalised within it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Constructed:
    """The actor as built."""

    settings: Mapping[str, Any]
    op_set: str
    dtype: str
    parameters: int
    threads: int
    libraries: Mapping[str, str]
    layers: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sealed:
    """Logprobs that were computed and not shown yet, as the engine seals its own.

    ``commitment`` is ``bits.digest`` of the fp32 patterns of all response tokens, trajectories in request order.
    """

    commitment: str
    tokens: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Computed:
    """One of the two actor sides: its sealed logprobs, and which packed forward held each trajectory."""

    sealed: Sealed
    packs: list[int]
    """Per trajectory in request order, counted from 0; goes into the evidence as ``recompute_pack``/``train_pack``."""
    observed: Observed = field(default_factory=Observed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stepped:
    """One optimizer step: loss and gradient norm as observations (text, so that no float enters a certificate)."""

    version: int
    """The policy version that the step made."""
    loss: str
    grad_norm: str
    """L2 over all tensors, before clipping."""
    advantages: list[str]
    off_policy_tokens: int
    """Tokens whose ratio exp(train − recompute) was not exactly 1; on policy there are none."""
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """Sender-side digests of one policy version, per tensor; none if ``digests`` was false, as for a baseline."""

    version: int
    master: Mapping[str, str]
    """Of the fp32 masters that the optimizer steps; a frozen tensor's is of its value in fp32."""
    deployed: Mapping[str, str]
    """Of the tensors in the file, in the deployed dtype."""
    frozen: Mapping[str, str]
    """Tensors without a gradient, with the reason."""
    file_sha256: str
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """Patterns of both actor sides before and after one ulp on every element of one layer's input norm weight.

    Both sides are executed anew under every probe.  What they were before is executed with the first layer and holds
    for the further layers of the same trajectories and version: each probe checks that the weight has its bits again.
    """

    layer: int
    recompute: list[list[int]]
    recompute_probed: list[list[int]]
    train: list[list[int]]
    train_probed: list[list[int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """One round's update, repeated. The commitments are for comparison only; their patterns are gone."""

    recompute: Computed
    train: Computed
    stepped: Stepped


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedSide:
    """One side computed once more, in its own packing and watched; its patterns can be revealed."""

    traced: Traced
    sealed: Sealed
