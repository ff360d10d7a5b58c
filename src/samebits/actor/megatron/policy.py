"""The actor's forward through Megatron: everything of ``actor.policy`` but the forward itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from samebits.actor.megatron import model as megatron
from samebits.actor.megatron.modules import Running
from samebits.actor.packed_batch import PackedBatch
from samebits.actor.policy import Policy
from samebits.errors import InputError
from samebits.models.folder import config_dtype
from samebits.ops.rope import Rope


@dataclass(frozen=True, kw_only=True, slots=True)
class MegatronPolicy(Policy):
    """Megatron's model with its parameters, on one op set.

    The recompute runs it in evaluation mode, the training forward in training mode, as Megatron's users do.
    """

    model: Any
    running: Running
    rotation: Rope

    def _forward(self, batch: PackedBatch, rows: Tensor, keys: Sequence[int]) -> Tensor:
        del keys
        if self.tracing is not None:
            raise InputError(
                "actor.trace",
                found="an actor inside Megatron-core",
                accepted="the kit's own actor: the ops inside Megatron are not watched yet",
                next_step='Trace the same recipe with actor.kind = "native"; the op set computes the same there.',
            )
        running, dtype = self.running, config_dtype(self.decoder.config)
        running.begin(batch, self.ops.rope_tables(batch.positions, self.rotation, dtype), rows)
        try:
            logits = self.model.train(torch.is_grad_enabled())(
                input_ids=batch.token_ids[None],
                position_ids=batch.positions[None],
                attention_mask=None,
                packed_seq_params=megatron.packed(batch),
            )
        finally:
            running.end()
        # Megatron returns [1, R, V]: batch first.
        return self.ops.token_logprobs(logits.squeeze(0), batch.token_ids[rows + 1])
