"""The policy worker on the kit's own op sets."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from samebits.actor import policy as sides
from samebits.actor.determinism import be_deterministic
from samebits.actor.export import export
from samebits.actor.loss import group_advantages
from samebits.actor.masters import Masters
from samebits.actor.optimizer import Optimizer
from samebits.actor.packing import pack_of_each, recompute_packing, train_packing
from samebits.actor.policy import Policy, Progress, silent
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
from samebits.actor.sealing import Vault, seal, to_lists
from samebits.actor.sequence import Sequence as CallSequence
from samebits.actor.sequence import Stage
from samebits.actor.settings import AnySettings, certified, refuse_shared_sides
from samebits.actor.trajectories import check_rewards, check_trajectories
from samebits.actor.ulp import one_ulp_away
from samebits.actor.update import PolicyUpdate
from samebits.bits import Bits
from samebits.errors import InputError
from samebits.models import open_folder
from samebits.models.family import Decoder
from samebits.models.folder import config_dtype
from samebits.ops import open_op_set
from samebits.ops.observer import Record
from samebits.ops.opset import OpSet
from samebits.ops.tracing import Tracing
from samebits.traced import Target


class NativeActor:
    """One policy: masters, optimizer, and the calls of ``samebits.actor.protocol`` in their order.

    Deterministic: two actors built alike and called alike commit to the same digests, in one process or in two.
    """

    def __init__(
        self, decoder: Decoder, weights: Mapping[str, Tensor], ops: OpSet, settings: AnySettings, max_model_len: int
    ) -> None:
        """``weights`` are the initial deployed weights, policy version 0; ``max_model_len`` the key slots L.

        They are where the op set computes, and everything made of them is there too.

        Raises:
            GateError: the settings would make one side of the other.
            InputError: ``max_model_len`` is not a length that the model has positions for, or the op set does not
                compute this family.
        """
        refuse_shared_sides(settings)
        check_family(ops, decoder)
        if not 1 <= max_model_len <= decoder.max_positions:
            raise InputError(
                "actor.max_model_len",
                found=max_model_len,
                accepted=f"1 to {decoder.max_positions}",
                next_step="Use the engine's max_model_len, within the model's positions.",
            )
        self._settings = settings
        self._switches: dict[str, Any] = {}
        self._masters = Masters(weights, decoder.frozen(), decoder)
        self._optimizer = Optimizer(self._masters, settings)
        self._policy = self._policy_on(decoder, ops, max_model_len)
        self._calls = CallSequence()
        self._vault = Vault()
        self._recomputed: tuple[list[Tokens], list[Bits]] = ([], [])
        self._update = PolicyUpdate([], [], settings.clip_epsilon)
        self._unprobed: tuple[int, list[Tokens], tuple[list[Bits], list[Bits]]] | None = None

    @classmethod
    def open(
        cls,
        model_folder: Path,
        op_set: str,
        settings: Mapping[str, Any],
        max_model_len: int,
        gate: Mapping[str, Any],
        switches: Mapping[str, Any] | None = None,
    ) -> NativeActor:
        """An actor from a prepared model folder, its settings passed by the row's gate.

        ``switches`` are the op set's, for instance ``{"batch_invariant": True}``.  Sets up this process' torch
        (threads, deterministic algorithms) once everything has been accepted.

        Raises:
            GateError: a setting that the row does not accept.
            InputError: unknown settings, op set or switches, or a folder that does not hold what it should.
            MachineError: the engine whose primitives the op set borrows is not there, or is another version.
        """
        accepted = certified(settings, gate)
        ops = open_op_set(op_set, switches)
        decoder, weights = open_folder(model_folder, device=ops.device)
        be_deterministic(accepted.threads)
        actor = cls(decoder, weights, ops, accepted, max_model_len)
        actor._switches = dict(switches or {})
        return actor

    def constructed(self) -> Constructed:
        """The actor as built."""
        return Constructed(
            settings=self._settings.model_dump(exclude_unset=True)
            | {"max_model_len": self._policy.max_model_len}
            | self._switches,
            op_set=self._policy.ops.name,
            dtype=str(config_dtype(self._policy.decoder.config)).removeprefix("torch."),
            parameters=sum(weight.numel() for weight in self._masters.master.values()),
            threads=torch.get_num_threads(),
            libraries=self._libraries(),
            layers=self._policy.decoder.layers,
        )

    def recompute(self, trajectories: Sequence[Tokens], version: int, progress: Progress = silent) -> Computed:
        """Seals the logprobs of all response tokens, forward only, in the recompute's packing.

        Raises:
            GateError: not due now.
            InputError: another policy version, or trajectories that cannot be computed.
        """
        self._calls.expect("recompute", version)
        self._check(trajectories)
        # What was sealed before belongs to another policy version.
        self._vault.clear()
        computed, patterns = self._recompute(trajectories, progress)
        self._vault.put(computed.sealed, patterns)
        return computed

    def train_forward(
        self, trajectories: Sequence[Tokens], rewards: Sequence[float], version: int, progress: Progress = silent
    ) -> Computed:
        """Seals the logprobs of the loss' own forward and keeps its gradients.

        ``trajectories`` are those of the recompute, in its order; ``rewards`` one finite number each.

        Raises:
            GateError: not due now; after the step it never is (rule 4).
            InputError: another policy version, other trajectories, or rewards that do not fit.
        """
        self._calls.expect("train_forward", version)
        self._check(trajectories)
        check_rewards(rewards, trajectories)
        computed, patterns = self._train_forward(trajectories, rewards, progress)
        self._vault.put(computed.sealed, patterns)
        return computed

    def step(self, version: int) -> Stepped:
        """The optimizer step from ``version`` to the next.

        Raises:
            GateError: not due now.
            InputError: another policy version.
            MachineError: a gradient is missing or not finite; nothing was stepped.
        """
        self._calls.expect("step", version)
        return self._step()

    def export(self, path: Path, version: int, *, digests: bool = True) -> Exported:
        """Writes the deployed weights of ``version``; see :func:`samebits.actor.export.export`.

        Raises:
            GateError: gradients are pending.
            InputError: another policy version, or no such folder.
            MachineError: the file could not be written.
        """
        self._calls.expect("export", version)
        exported = export(self._masters, path, version, with_digests=digests)
        if self._calls.stage is Stage.STEPPED:
            self._calls.stage = Stage.READY
        return exported

    def probe(self, layer: int, trajectories: Sequence[Tokens], version: int) -> Probed:
        """Both sides before and after one ulp on ``layer``'s input norm weight, as deployed (rule 3).

        Raises:
            GateError: gradients are pending.
            InputError: another policy version, no such layer, or trajectories that cannot be computed.
            MachineError: the weight did not come back to its own bits.
        """
        self._calls.expect("probe", version)
        self._check(trajectories)
        if not 0 <= layer < self._policy.decoder.layers:
            raise InputError(
                "actor.probe.layer",
                found=layer,
                accepted=f"0 to {self._policy.decoder.layers - 1}",
                next_step="Probe each layer of the model in turn.",
            )
        name = self._policy.decoder.input_norm(layer)
        recompute, train = self._before_probe(trajectories)
        with one_ulp_away(name, self._masters.deployed[name]):
            # The training forward first: were it a copy of the last recompute, it would not have moved yet.
            train_probed, recompute_probed = self._train_side(trajectories), self._recompute_side(trajectories)
        return Probed(
            layer=layer,
            recompute=to_lists(recompute),
            recompute_probed=to_lists(recompute_probed),
            train=to_lists(train),
            train_probed=to_lists(train_probed),
        )

    def trace(self, side: Side, trajectories: Sequence[Tokens], version: int, target: Target) -> TracedSide:
        """One side of ``trajectories`` computed once more, with digests of the rows of trajectory ``target.sequence``.

        Raises:
            GateError: gradients are pending.
            InputError: another policy version, or trajectories that cannot be computed.
        """
        self._calls.expect("trace", version)
        self._check(trajectories)
        began = time.perf_counter()
        untraced, tracing = self._policy, Tracing(target)
        self._policy = replace(untraced, tracing=tracing)
        try:
            patterns = (self._recompute_side if side == "recompute" else self._train_side)(trajectories)
        finally:
            self._policy = untraced
        sealed = seal(patterns, time.perf_counter() - began)
        self._vault.put(sealed, patterns)
        return TracedSide(traced=tracing.result(), sealed=sealed)

    def reveal(self, commitment: str) -> list[list[int]]:
        """The patterns behind a commitment of this policy version, per trajectory in request order.

        Raises:
            InputError: nothing has that commitment.
        """
        return self._vault.reveal(commitment)

    def replay_step(
        self, trajectories: Sequence[Tokens], rewards: Sequence[float], version: int, progress: Progress = silent
    ) -> Replayed:
        """Repeats the update of a finished round, so that a resumed run finds masters and optimizer as they were.

        Raises:
            GateError: not due now.
            InputError: another policy version, or input that the round cannot have had.
            MachineError: a gradient is missing or not finite; nothing was stepped.
        """
        self._calls.expect("replay_step", version)
        self._check(trajectories)
        check_rewards(rewards, trajectories)
        self._vault.clear()
        recompute, _ = self._recompute(trajectories, progress)
        train, _ = self._train_forward(trajectories, rewards, progress)
        return Replayed(recompute=recompute, train=train, stepped=self._step())

    def _policy_on(self, decoder: Decoder, ops: OpSet, max_model_len: int) -> Policy:
        """The forward of both sides, on the masters' deployed weights."""
        return Policy(
            decoder=decoder,
            ops=ops,
            weights=self._masters.weights,
            max_model_len=max_model_len,
            activation_checkpointing=self._settings.activation_checkpointing,
        )

    def _libraries(self) -> dict[str, str]:
        """What computes here, by version."""
        return {"torch": str(torch.__version__), "safetensors": installed("safetensors")}

    def _recompute(self, trajectories: Sequence[Tokens], progress: Progress) -> tuple[Computed, list[Bits]]:
        began = time.perf_counter()
        packing = recompute_packing(len(trajectories), self._settings.recompute_pack)
        record = Record()
        patterns = sides.recompute(self._policy, trajectories, packing, progress, record)
        self._recomputed = (list(trajectories), patterns)
        self._calls.stage = Stage.RECOMPUTED
        observed = sides.observed(record, trajectories)
        sealed = seal(patterns, time.perf_counter() - began)
        return Computed(sealed=sealed, packs=pack_of_each(packing), observed=observed), patterns

    def _train_forward(
        self, trajectories: Sequence[Tokens], rewards: Sequence[float], progress: Progress
    ) -> tuple[Computed, list[Bits]]:
        began = time.perf_counter()
        recomputed, old = self._recomputed
        if list(trajectories) != recomputed:
            raise InputError(
                "actor.train_forward.trajectories",
                found="other trajectories than those of the recompute",
                accepted="the recompute's trajectories in its order",
                next_step="The ratio needs an old logprob for each token; send both calls the same round.",
            )
        advantages = group_advantages(rewards, [trajectory.group for trajectory in trajectories])
        packing = train_packing(len(trajectories), self._settings.train_pack)
        update = PolicyUpdate(old, advantages, self._settings.clip_epsilon)
        self._masters.forget_gradients()
        record = Record()
        patterns = sides.train_forward(self._policy, trajectories, packing, update, progress, record)
        self._update = update
        self._calls.stage = Stage.TRAINED
        observed = sides.observed(record, trajectories)
        sealed = seal(patterns, time.perf_counter() - began)
        return Computed(sealed=sealed, packs=pack_of_each(packing), observed=observed), patterns

    def _step(self) -> Stepped:
        began = time.perf_counter()
        update = self._update
        norm = self._optimizer.step()
        self._recomputed = ([], [])
        self._calls.version += 1
        self._calls.stage = Stage.STEPPED
        return Stepped(
            version=self._calls.version,
            loss=repr(update.loss),
            grad_norm=repr(norm),
            advantages=[repr(advantage) for advantage in update.advantages],
            off_policy_tokens=update.off_policy_tokens,
            seconds=time.perf_counter() - began,
        )

    def _before_probe(self, trajectories: Sequence[Tokens]) -> tuple[list[Bits], list[Bits]]:
        """Both sides on the weights as they are: executed once for all layers, since each probe restores them."""
        if self._unprobed is None or self._unprobed[:2] != (self._calls.version, list(trajectories)):
            self._unprobed = (self._calls.version, list(trajectories), self._both_sides(trajectories))
        return self._unprobed[2]

    def _both_sides(self, trajectories: Sequence[Tokens]) -> tuple[list[Bits], list[Bits]]:
        return self._recompute_side(trajectories), self._train_side(trajectories)

    def _recompute_side(self, trajectories: Sequence[Tokens]) -> list[Bits]:
        packing = recompute_packing(len(trajectories), self._settings.recompute_pack)
        return sides.recompute(self._policy, trajectories, packing)

    def _train_side(self, trajectories: Sequence[Tokens]) -> list[Bits]:
        """Without a loss: graph built, nothing propagated."""
        packing = train_packing(len(trajectories), self._settings.train_pack)
        return sides.train_forward(self._policy, trajectories, packing, _no_objective)

    def _check(self, trajectories: Sequence[Tokens]) -> None:
        check_trajectories(
            trajectories, vocab_size=self._policy.decoder.vocab_size, max_model_len=self._policy.max_model_len
        )


def _no_objective(pack: list[int], logprobs: Tensor) -> None:
    """For a forward that is only looked at."""
    del pack, logprobs


def check_family(ops: OpSet, decoder: Decoder) -> None:
    """That ``ops`` computes the decoder's family.

    Raises:
        InputError: it does not.
    """
    model_type = decoder.config["model_type"]
    if ops.model_types is not None and model_type not in ops.model_types:
        raise InputError(
            "op_set",
            found=f"{ops.name!r} for a model of type {model_type!r}",
            accepted=f"with this op set: {', '.join(sorted(ops.model_types))}",
            next_step="Choose a recipe whose model the row's op set computes.",
        )
