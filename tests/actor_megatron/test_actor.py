"""Against the reference actor: the forward bit for bit, everything else within what is stated."""

from __future__ import annotations

import pytest
import torch

from actor import tiny
from actor.tiny import REWARDS
from samebits.bits import from_float32
from samebits.errors import MachineError
from samebits.ops.native import Native

from .worlds import SHAPES, megatron, native

pytestmark = pytest.mark.megatron

STEP_TOLERANCE = 1e-6
"""Relative, of a master after one step.  Gradients are the reference's own bits; their norm, over tensors that are
fused, is summed in another order, and clips all of them by a factor that may differ in its last place."""


@pytest.mark.parametrize("op_set", ["native", "plain"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_three_rounds_have_the_reference_actors_bits(shape, op_set, tmp_path):
    """Without clipping, where the norm of the gradients enters, the steps have them too."""
    model, trajectories = tiny.model(**shape), tiny.trajectories()
    ours, reference = (actor(model, op_set, max_grad_norm=1e6) for actor in (megatron, native))
    for version in range(3):
        found, expected = (actor.recompute(trajectories, version) for actor in (ours, reference))
        assert found.sealed.commitment == expected.sealed.commitment
        assert found.packs == expected.packs
        trained, wanted = (actor.train_forward(trajectories, REWARDS, version) for actor in (ours, reference))
        assert trained.sealed.commitment == wanted.sealed.commitment
        assert op_set == "plain" or trained.sealed.commitment == found.sealed.commitment
        stepped, due = (actor.step(version) for actor in (ours, reference))
        assert stepped.loss == due.loss
        assert float(stepped.grad_norm) == pytest.approx(float(due.grad_norm), rel=STEP_TOLERANCE)
        sent, wanted = (actor.export(tmp_path / "w.safetensors", version + 1) for actor in (ours, reference))
        assert (sent.deployed, sent.master) == (wanted.deployed, wanted.master)


def test_gradients_are_the_references_and_a_step_is_near():
    model, trajectories = tiny.model(), tiny.trajectories()
    ours, reference = megatron(model), native(model)
    for actor in (ours, reference):
        actor.recompute(trajectories, 0)
        actor.train_forward(trajectories, REWARDS, 0)
    gradients = ours._held.deploy(dict(zip(ours._masters.trained, ours._masters.gradients(), strict=True)))
    for name, gradient in zip(reference._masters.trained, reference._masters.gradients(), strict=True):
        assert torch.equal(gradients[name], gradient), name
    stepped, due = (actor.step(0) for actor in (ours, reference))
    assert float(due.grad_norm) > 1, "clipped"
    assert float(stepped.grad_norm) == pytest.approx(float(due.grad_norm), rel=STEP_TOLERANCE)
    masters = ours._masters.by_deployed_name()
    for name, expected in reference._masters.by_deployed_name().items():
        torch.testing.assert_close(masters[name], expected, rtol=STEP_TOLERANCE, atol=0)


@pytest.mark.parametrize("op_set", ["native", "plain"])
def test_activation_checkpointing_changes_no_bit(op_set, tmp_path):
    model, trajectories = tiny.model(), tiny.trajectories()
    seen = []
    for on in (False, True):
        actor = megatron(model, op_set, activation_checkpointing=on)
        actor.recompute(trajectories, 0)
        trained = actor.train_forward(trajectories, REWARDS, 0)
        actor.step(0)
        seen.append((trained.sealed.commitment, actor.export(tmp_path / "w.safetensors", 1).master))
    assert seen[0] == seen[1]


class Fused(Native):
    """As a CUDA engine fuses: the norm is of the fp32 sum, before it is rounded."""

    def add_rms_norm(self, x, residual, weight, epsilon):
        total = x.float() + residual.float()
        return self.rms_norm(total, weight, epsilon).to(x.dtype), total.to(x.dtype)


def test_a_fused_sum_is_fused_through_megatron_too():
    """Megatron's own order, first the rounded sum and then its norm, would have other bits."""
    model, trajectories = tiny.model(), tiny.trajectories()
    found = megatron(model, Fused()).recompute(trajectories, 0).sealed.commitment
    assert found == native(model, Fused()).recompute(trajectories, 0).sealed.commitment
    assert found != native(model).recompute(trajectories, 0).sealed.commitment


def test_a_probe_moves_both_sides_and_comes_back():
    """Rule 3's probe writes to the deployed weight; Megatron must compute with that very memory."""
    model, trajectories = tiny.model(), tiny.trajectories()[:3]
    ours, reference = megatron(model), native(model)
    for layer in range(3):
        found, expected = (actor.probe(layer, trajectories, 0) for actor in (ours, reference))
        assert found == expected
        assert found.recompute != found.recompute_probed
        assert found.train != found.train_probed


def test_says_what_it_is():
    built = megatron(tiny.model()).constructed()
    assert built.settings["kind"] == "megatron"
    assert built.libraries.keys() == {"torch", "safetensors", "megatron-core"}
    assert built.op_set == "native"
    assert (built.layers, built.parameters) == (3, native(tiny.model()).constructed().parameters)


def test_logprobs_of_the_rows_that_are_wanted_and_no_other(monkeypatch):
    from samebits.actor.megatron.modules import Head  # noqa: PLC0415

    shapes, forward = [], Head.forward

    def watched(self, hidden, *others, **options):
        logits, bias = forward(self, hidden, *others, **options)
        shapes.append((tuple(hidden.shape), tuple(logits.shape)))
        return logits, bias

    actor = megatron(tiny.model())
    monkeypatch.setattr(Head, "forward", watched)
    logprobs = actor._policy.logprobs(tiny.trajectories()[:2])
    assert shapes == [((19, 1, 32), (13, 1, 96))]  # 12 and 7 tokens, of which 7 and 6 answer
    assert logprobs.shape == (13,)
    assert len(set(from_float32(logprobs.detach().numpy()).tolist())) == 13


def test_what_is_sent_is_what_megatron_computes_with(tmp_path):
    actor = megatron(tiny.model())
    name = "model.layers.1.self_attn.k_proj.weight"
    with torch.no_grad():
        actor._masters.deployed[name][0, 0] += 1
    with pytest.raises(MachineError) as caught:
        actor.export(tmp_path / "w.safetensors", 0)
    assert caught.value.field == f"refit 0: {name}"
    assert "the parameters that Megatron computes with" in caught.value.accepted
