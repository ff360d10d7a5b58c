"""The actor's forward: response logprobs of packed sequences, and the two sides that are made of it.

:func:`recompute` and :func:`train_forward` share the policy's weights and nothing else: each builds its own packed
batches, runs the whole model, and returns its own patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from samebits import bits
from samebits.actor.packed_batch import PackedBatch
from samebits.actor.packing import Packing, in_request_order
from samebits.actor.protocol import Tokens
from samebits.bits import Bits
from samebits.models.family import Decoder, Weights
from samebits.observed import Observed
from samebits.ops.observer import Record
from samebits.ops.opset import OpSet
from samebits.ops.tracing import Tracing

Objective = Callable[[list[int], Tensor], None]
"""Takes a pack (trajectory indices) and its logprobs [R] into the loss."""

HEAD_ROWS: Final = 4096
"""Rows of logits held at once with activation checkpointing: 1.2 GB in bf16 at a vocabulary of 151,936."""

Progress = Callable[[int, int], None]
"""Packs done, and packs in all."""


def silent(done: int, total: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """A decoder with its deployed weights on one op set."""

    decoder: Decoder
    ops: OpSet
    weights: Weights
    max_model_len: int
    activation_checkpointing: bool = False
    """Activations are computed again in the backward, logits for :data:`HEAD_ROWS` rows at a time; costs a forward."""
    tracing: Tracing | None = None
    """Who digests rows on the way, if anybody."""

    def logprobs(
        self, trajectories: Sequence[Tokens], record: Record | None = None, keys: Sequence[int] = ()
    ) -> Tensor:
        """Raw logprobs of all response tokens of one packed forward, fp32 [R], in the order of rows.

        ``record`` takes what is decided on the way, under one of ``keys`` for each trajectory.
        """
        batch = PackedBatch(
            [trajectory.token_ids for trajectory in trajectories],
            self.max_model_len,
            device=self.ops.device,
            checkpointing=self.activation_checkpointing,
        )
        if record is not None:
            batch.observer = record.of(keys, batch.starts, batch.offsets)
        # The row before each response token predicts it; the head is by far the widest layer, so no other row enters.
        rows = torch.cat(
            [
                torch.arange(start + trajectory.prompt_length - 1, end - 1, device=self.ops.device)
                for trajectory, start, end in zip(trajectories, batch.starts[:-1], batch.starts[1:], strict=True)
            ]
        )
        return self._forward(batch, rows, keys)

    def _forward(self, batch: PackedBatch, rows: Tensor, keys: Sequence[int]) -> Tensor:
        """Raw logprobs of the tokens that follow packed rows int64 [R]: fp32 [R]."""
        ops = self.ops if self.tracing is None else self.tracing.forward(self.ops, self.weights, batch, keys)
        hidden = self.decoder.hidden_states(ops, self.weights, batch)
        hidden, token_ids = hidden.index_select(0, rows), batch.token_ids[rows + 1]
        if not self.activation_checkpointing:
            return self._head(rows, hidden, token_ids)
        parts = zip(*(torch.split(one, HEAD_ROWS) for one in (rows, hidden, token_ids)), strict=True)
        return torch.cat([batch.run_layer(self._head, *part) for part in parts])

    def _head(self, rows: Tensor, hidden: Tensor, token_ids: Tensor) -> Tensor:
        """Raw logprobs of int64 [R] after hidden states [R, hidden_size] of packed ``rows``: fp32 [R]."""
        ops = self.ops if self.tracing is None else self.tracing.head(rows.tolist())
        return ops.token_logprobs(self.decoder.logits(ops, self.weights, hidden), token_ids)


def recompute(
    policy: Policy,
    trajectories: Sequence[Tokens],
    packing: Packing,
    progress: Progress = silent,
    record: Record | None = None,
) -> list[Bits]:
    """Forward only: patterns of each trajectory's response tokens, in request order."""
    packed: list[list[Bits]] = []
    with torch.no_grad():
        for pack in packing:
            members = [trajectories[index] for index in pack]
            packed.append(_split(policy.logprobs(members, record, pack), members))
            progress(len(packed), len(packing))
    return in_request_order(packing, packed)


def train_forward(
    policy: Policy,
    trajectories: Sequence[Tokens],
    packing: Packing,
    objective: Objective,
    progress: Progress = silent,
    record: Record | None = None,
) -> list[Bits]:
    """The loss' own forward, pack by pack: the patterns are those of the very tensors that ``objective`` gets."""
    packed: list[list[Bits]] = []
    with torch.enable_grad():
        for pack in packing:
            members = [trajectories[index] for index in pack]
            logprobs = policy.logprobs(members, record, pack)
            packed.append(_split(logprobs, members))
            objective(pack, logprobs)
            # Frees this pack's graph before the next one is built.
            del logprobs
            progress(len(packed), len(packing))
    return in_request_order(packing, packed)


def observed(record: Record, trajectories: Sequence[Tokens]) -> Observed:
    """What was decided and met; without the last token of each trajectory, which an engine never computes."""
    return record.observed({index: len(trajectory.token_ids) - 1 for index, trajectory in enumerate(trajectories)})


def _split(logprobs: Tensor, trajectories: Sequence[Tokens]) -> list[Bits]:
    """Patterns per trajectory, copied out of the tensor."""
    lengths = [len(trajectory.token_ids) - trajectory.prompt_length for trajectory in trajectories]
    return [bits.from_float32(part.numpy()).copy() for part in torch.split(logprobs.detach().cpu(), lengths)]
