"""The policy worker inside Megatron-core."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from samebits.actor.actor import NativeActor
from samebits.actor.megatron import batch_invariant, layout, library
from samebits.actor.megatron.dense import MegatronDense
from samebits.actor.megatron.mapping import table
from samebits.actor.megatron.modules import Running
from samebits.actor.packed_batch import PackedBatch
from samebits.actor.policy import Policy
from samebits.actor.protocol import Exported, Tokens
from samebits.actor.settings import AnySettings
from samebits.errors import InputError, MachineError
from samebits.integrity import digests
from samebits.models.dense import Dense
from samebits.models.family import Decoder
from samebits.models.folder import config_dtype
from samebits.ops.opset import OpSet
from samebits.ops.rope import Rope
from samebits.recipe.model import MegatronActor as MegatronSettings


class MegatronActor(NativeActor):
    """``NativeActor`` with Megatron's model as its forward, and Megatron's parameters under its masters.

    Masters and optimizer work on Megatron's parameters, fused as they are; refits are written under the engine's
    names.  How they lie in each other is asked of Megatron itself before anything is computed.
    """

    def __init__(
        self, decoder: Decoder, weights: Mapping[str, Tensor], ops: OpSet, settings: AnySettings, max_model_len: int
    ) -> None:
        """As ``NativeActor``; ``decoder`` is a dense one.

        Raises:
            GateError: Megatron's batch-invariant mode was asked for, or as ``NativeActor``.
            InputError: another family, parameters that do not lie as the table says, or as ``NativeActor``.
            MachineError: Megatron-core is not installed or does not import.
        """
        if not isinstance(decoder, Dense):
            raise InputError(
                "actor.kind",
                found=f"'megatron' for a model of type {decoder.config['model_type']!r}",
                accepted="llama or qwen3: experts do not go through Megatron's router and dispatcher yet",
                next_step='Choose a dense recipe, or actor.kind = "native".',
            )
        self._megatron = library.require()
        if isinstance(settings, MegatronSettings) and settings.batch_invariant_mode:
            batch_invariant.refuse()
        # These import Megatron.
        from samebits.actor.megatron import model  # noqa: PLC0415  # not before it is known to be there

        self._running = Running(ops=ops)
        self._model = model.build(decoder.dense, config_dtype(decoder.config), self._running)
        layout.check_rows(self._model, table(decoder.dense))
        self._rotation = Rope(
            positions=decoder.max_positions, size=decoder.dense.head_dim, theta=decoder.dense.rope_theta
        )
        self._held = MegatronDense(decoder.config, self._model)
        super().__init__(self._held, weights, ops, settings, max_model_len)
        self._check_order(decoder)

    def export(self, path: Path, version: int, *, digests: bool = True) -> Exported:
        """As ``NativeActor``; what is sent is held against the parameters that Megatron computes with.

        Raises:
            MachineError: Megatron's parameters, taken apart, are not what was sent; or as ``NativeActor``.
        """
        exported = super().export(path, version, digests=digests)
        if digests:
            self._check_sent(exported)
        return exported

    def _policy_on(self, decoder: Decoder, ops: OpSet, max_model_len: int) -> Policy:
        from samebits.actor.megatron.policy import MegatronPolicy  # noqa: PLC0415  # it imports Megatron

        return MegatronPolicy(
            decoder=decoder,
            ops=ops,
            weights=self._masters.weights,
            max_model_len=max_model_len,
            activation_checkpointing=self._settings.activation_checkpointing,
            model=self._model,
            running=self._running,
            rotation=self._rotation,
        )

    def _libraries(self) -> dict[str, str]:
        return {**super()._libraries(), library.DISTRIBUTION: self._megatron}

    @torch.no_grad()
    def _check_sent(self, exported: Exported) -> None:
        computed_with = digests(self._held.deploy(dict(self._model.named_parameters())))
        for name, sent in exported.deployed.items():
            if computed_with[name] != sent:
                raise MachineError(
                    f"refit {exported.version}: {name}",
                    found=f"digest {sent} in the file",
                    accepted=f"{computed_with[name]}, of the parameters that Megatron computes with",
                    next_step="Start a new run; if it recurs, actor/megatron/mapping.py or the memory is at fault.",
                )

    def _check_order(self, decoder: Dense) -> None:
        tokens = [0, 0]
        batch = PackedBatch([tokens], self._policy.max_model_len, device=self._policy.ops.device)
        alone = Tokens(request_id="order", token_ids=tokens, prompt_length=1, group=0)
        layout.check_order(
            self._model,
            lambda: self._policy.logprobs([alone]),
            table(decoder.dense),
            layout.order_of_use(decoder, self._policy.ops, self._masters.deployed, batch),
        )
