"""What the policy worker answers over the spool.

The actor receives token ids and rewards, never the rollout's logprobs; the method signatures leave no place for them
(rule 3).  Recompute and training forward are sealed like the engine's logprobs: commitment now, patterns on
``reveal``.  Within one policy version the calls come in the order ``recompute``, ``train_forward``, ``step``,
``export``; anything else raises, so a training forward can never be taken after the step (rule 4).

=================  ===================================  =========================================================
method             parameters                           result
=================  ===================================  =========================================================
``construct``      model_folder, op_set, settings, gate :class:`Constructed`
``recompute``      trajectories, version                ``engine.protocol.Sealed``: forward only, one packing
``train_forward``  trajectories, rewards, version       ``Sealed``: the loss' own forward, another packing;
                                                        gradients are accumulated, no step yet
``step``           version                              :class:`Stepped`: the optimizer step
``export``         path, version                        :class:`Exported`: writes the deployed weights
``probe``          layer, trajectories, version         :class:`Probed`: rule 3's one-ulp probe, weights restored
``reveal``         commitment                           patterns per trajectory, as lists of uint32
=================  ===================================  =========================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
class Stepped:
    """One optimizer step: loss and gradient norm as observations (text, so that no float enters a certificate)."""

    version: int
    loss: str
    grad_norm: str
    advantages: list[str]
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """Sender-side digests of one policy version, per tensor."""

    version: int
    master: Mapping[str, str]
    """Of the fp32 masters that the optimizer steps."""
    deployed: Mapping[str, str]
    """Of the tensors in the file, in the deployed dtype."""
    frozen: Mapping[str, str]
    """Tensors without a gradient, with the reason."""
    file_sha256: str
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """Patterns of both actor sides before and after one ulp on every element of one layer's input norm weight."""

    layer: int
    recompute: list[list[int]]
    recompute_probed: list[list[int]]
    train: list[list[int]]
    train_probed: list[list[int]]
