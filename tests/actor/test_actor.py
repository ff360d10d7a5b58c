from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from ops.borrowed import borrowed
from samebits import bits
from samebits.actor import policy as sides
from samebits.actor.actor import check_family
from samebits.errors import GateError, InputError, MachineError
from samebits.hashing import sha256_file
from samebits.integrity import digests
from samebits.models import open_decoder, seeded_config, seeded_weights
from samebits.ops import open_op_set
from samebits.traced import Target

from . import tiny
from .tiny import REWARDS


def run_round(actor, trajectories, version, path):
    """One whole policy version; everything but the seconds."""
    recompute = actor.recompute(trajectories, version)
    train = actor.train_forward(trajectories, REWARDS, version)
    stepped = actor.step(version)
    exported = actor.export(path, version + 1)
    return (
        (recompute.sealed.commitment, recompute.packs),
        (train.sealed.commitment, train.packs),
        (stepped.version, stepped.loss, stepped.grad_norm, stepped.advantages, stepped.off_policy_tokens),
        (exported.version, exported.master, exported.deployed, exported.frozen, exported.file_sha256),
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied head", "own head"])
def test_recompute_and_training_forward_have_the_same_bits_across_packings(dtype, tied, tmp_path):
    actor = tiny.actor(tiny.model(dtype=dtype, tie_word_embeddings=tied))
    for version in range(3):
        trajectories = tiny.trajectories(version)
        recompute = actor.recompute(trajectories, version)
        train = actor.train_forward(trajectories, REWARDS, version)
        assert recompute.packs == [0, 0, 1, 1, 2]
        assert train.packs == [0, 1, 0, 1, 0]
        assert recompute.sealed.tokens == train.sealed.tokens == 7 + 6 + 11 + 1 + 15
        assert recompute.sealed.commitment == train.sealed.commitment
        stepped = actor.step(version)
        assert stepped.off_policy_tokens == 0
        actor.export(tmp_path / "w.safetensors", version + 1)


def test_patterns_are_those_of_each_sequence_alone(model, actor, trajectories):
    commitment = actor.recompute(trajectories, 0).sealed.commitment
    revealed = actor.reveal(commitment)
    decoder, weights, ops = open_decoder(seeded_config(model)), seeded_weights(model), open_op_set("native")
    for one, patterns in zip(trajectories, revealed, strict=True):
        policy = sides.Policy(decoder=decoder, ops=ops, weights=weights, max_model_len=tiny.SLOTS)
        alone = policy.logprobs([one])
        assert patterns == bits.from_float32(alone.numpy()).tolist()
        assert all(logprob < 0 for logprob in alone)
    flat = np.concatenate([np.array(patterns, dtype=np.uint32) for patterns in revealed])
    assert bits.digest(flat) == commitment


def test_only_rows_that_predict_a_response_token_reach_the_head(model, actor, trajectories, monkeypatch):
    rows = []
    logits = type(open_decoder(seeded_config(model))).logits

    def counted(self, ops, weights, hidden):
        rows.append(len(hidden))
        return logits(self, ops, weights, hidden)

    monkeypatch.setattr(type(open_decoder(seeded_config(model))), "logits", counted)
    actor.recompute(trajectories, 0)
    assert rows == [7 + 6, 11 + 1, 15]


def test_two_actors_alike_give_the_same_digests(model, tmp_path):
    one, two = tiny.actor(model), tiny.actor(model)
    for version in range(3):
        trajectories = tiny.trajectories(version)
        first = run_round(one, trajectories, version, tmp_path / "one.safetensors")
        assert first == run_round(two, trajectories, version, tmp_path / "two.safetensors")


def test_each_step_changes_every_master(actor, trajectories, tmp_path):
    before = actor.export(tmp_path / "w.safetensors", 0)
    for version in range(3):
        *_, exported = run_round(actor, trajectories, version, tmp_path / "w.safetensors")
        assert all(exported[1][name] != before.master[name] for name in before.master)
        before = actor.export(tmp_path / "w.safetensors", version + 1)


@pytest.mark.parametrize("op_set", ["native", "plain"])
def test_activation_checkpointing_changes_no_bit(op_set, tmp_path):
    kept, again = (tiny.actor(tiny.model(), op_set, activation_checkpointing=on) for on in (False, True))
    whole = run_round(kept, tiny.trajectories(), 0, tmp_path / "kept.safetensors")
    assert run_round(again, tiny.trajectories(), 0, tmp_path / "again.safetensors") == whole


def test_a_head_in_parts_has_the_same_logprobs(actor, trajectories, monkeypatch):
    """Packs of 13, 12 and 15 response tokens, five rows of logits at a time."""
    expected = actor.recompute(trajectories, 0).sealed.commitment
    monkeypatch.setattr(sides, "HEAD_ROWS", 5)
    parts = tiny.actor(tiny.model(), activation_checkpointing=True)
    assert parts.recompute(trajectories, 0).sealed.commitment == expected
    assert parts.train_forward(trajectories, REWARDS, 0).sealed.commitment == expected
    assert parts.step(0).off_policy_tokens == 0


@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "computed again"])
@pytest.mark.parametrize("ops", [open_op_set("native"), borrowed()], ids=lambda ops: ops.name)
def test_gradient_against_float64(ops, checkpointing):
    model = tiny.model(dtype="float32")
    actor, trajectories = tiny.actor(model, ops, activation_checkpointing=checkpointing), tiny.trajectories()
    actor.recompute(trajectories, 0)
    actor.train_forward(trajectories, REWARDS, 0)
    found = dict(zip(actor._masters.trained, actor._masters.gradients(), strict=True))

    weights = {name: weight.double().requires_grad_() for name, weight in seeded_weights(model).items()}
    policy = sides.Policy(
        decoder=open_decoder(seeded_config(model)), ops=open_op_set("plain"), weights=weights, max_model_len=tiny.SLOTS
    )
    groups = [np.array(REWARDS[:3]), np.array(REWARDS[3:])]
    advantages = np.concatenate([(group - group.mean()) / (group.std(ddof=1) + 1e-6) for group in groups])
    # On policy the clipped objective's gradient is that of the logprobs, weighted by advantage.
    total = sum(
        policy.logprobs([one]).sum() * advantage for one, advantage in zip(trajectories, advantages, strict=True)
    )
    (-total / 40).backward()
    for name, weight in weights.items():
        # Sums of many terms cancel, so fp32's error is measured against the tensor's largest element.
        error = (found[name].double() - weight.grad).abs().max() / weight.grad.abs().max()
        assert error < 1e-5, name


def test_loss_on_policy_is_minus_the_mean_advantage(actor, trajectories):
    actor.recompute(trajectories, 0)
    actor.train_forward(trajectories, REWARDS, 0)
    stepped = actor.step(0)
    advantages = [float(text) for text in stepped.advantages]
    expected = -np.dot(advantages, [7, 6, 11, 1, 15]) / 40
    np.testing.assert_allclose(float(stepped.loss), expected, rtol=1e-5)
    assert stepped.version == 1


def test_equal_rewards_give_no_gradient(model, trajectories, tmp_path):
    actor = tiny.actor(model, weight_decay=0.0)
    before = actor.export(tmp_path / "w.safetensors", 0)
    actor.recompute(trajectories, 0)
    actor.train_forward(trajectories, [1.0] * 5, 0)
    stepped = actor.step(0)
    assert stepped.advantages == ["0.0"] * 5
    assert (float(stepped.loss), stepped.grad_norm) == (0.0, "0.0")
    assert actor.export(tmp_path / "w.safetensors", 1).master == before.master


def test_off_policy_tokens_are_counted_where_the_sides_differ(actor, trajectories):
    actor.recompute(trajectories, 0)
    _, old = actor._recomputed
    old[1][2] += 1 << 12
    old[4][0] += 1 << 12
    actor.train_forward(trajectories, REWARDS, 0)
    assert actor.step(0).off_policy_tokens == 2


def test_a_gradient_that_is_not_finite_steps_nothing(actor, trajectories, tmp_path):
    before = actor.export(tmp_path / "w.safetensors", 0)
    actor.recompute(trajectories, 0)
    actor.train_forward(trajectories, REWARDS, 0)
    actor._masters.gradients()[0][0, 0] = float("nan")
    with pytest.raises(MachineError) as caught:
        actor.step(0)
    assert caught.value.field == "gradient of model.embed_tokens.weight"
    assert digests(actor._masters.master) == before.master
    with pytest.raises(GateError):
        actor.export(tmp_path / "w.safetensors", 0)


def test_a_training_forward_after_the_step_is_refused(actor, trajectories, tmp_path):
    run_round(actor, trajectories, 0, tmp_path / "w.safetensors")
    for version in (0, 1):
        with pytest.raises(GateError) as caught:
            actor.train_forward(trajectories, REWARDS, version)
        assert str(caught.value) == (
            "actor.train_forward: found a call before the recompute of version 1; "
            "accepted: recompute, export, probe, trace, replay_step. "
            "Within one policy version: recompute, train_forward, step, export."
        )


def test_a_stepped_version_is_exported_before_it_is_used(actor, trajectories):
    actor.recompute(trajectories, 0)
    actor.train_forward(trajectories, REWARDS, 0)
    actor.step(0)
    with pytest.raises(GateError) as caught:
        actor.recompute(trajectories, 1)
    assert caught.value.accepted == "export, probe, trace, replay_step"


def test_the_training_forward_wants_the_recomputes_trajectories(actor, trajectories):
    actor.recompute(trajectories, 0)
    with pytest.raises(InputError) as caught:
        actor.train_forward(trajectories[::-1], REWARDS, 0)
    assert str(caught.value) == (
        "actor.train_forward.trajectories: found other trajectories than those of the recompute; "
        "accepted: the recompute's trajectories in its order. "
        "The ratio needs an old logprob for each token; send both calls the same round."
    )
    assert actor.train_forward(trajectories, REWARDS, 0).sealed.tokens == 40


def test_a_training_forward_that_broke_off_leaves_no_gradient(model, trajectories, monkeypatch):
    broken, whole = tiny.actor(model), tiny.actor(model)
    logprobs = sides.Policy.logprobs
    packs = []

    def second_pack_fails(self, members, *watch):
        packs.append(members)
        if len(packs) == 2:
            raise ZeroDivisionError
        return logprobs(self, members, *watch)

    broken.recompute(trajectories, 0)
    with monkeypatch.context() as patch:
        patch.setattr(sides.Policy, "logprobs", second_pack_fails)
        with pytest.raises(ZeroDivisionError):
            broken.train_forward(trajectories, REWARDS, 0)
    broken.train_forward(trajectories, REWARDS, 0)
    whole.recompute(trajectories, 0)
    whole.train_forward(trajectories, REWARDS, 0)
    assert broken.step(0).grad_norm == whole.step(0).grad_norm


@pytest.mark.parametrize("call", ["recompute", "probe", "replay_step"])
def test_nothing_to_compute_is_an_input_error(actor, call):
    arguments = {"recompute": ([], 0), "probe": (0, [], 0), "replay_step": ([], [], 0)}[call]
    with pytest.raises(InputError) as caught:
        getattr(actor, call)(*arguments)
    assert caught.value.field == "trajectories"


def test_reveal_wants_a_commitment_of_this_version(actor, trajectories, tmp_path):
    with pytest.raises(InputError) as caught:
        actor.reveal("f00d")
    assert str(caught.value) == (
        "commitment: found f00d; accepted: nothing: no logprobs are sealed. "
        "Reveal what recompute or train_forward of this policy version committed to."
    )
    old = actor.recompute(trajectories, 0).sealed.commitment
    actor.train_forward(trajectories, REWARDS, 0)
    actor.step(0)
    actor.export(tmp_path / "w.safetensors", 1)
    new = actor.recompute(trajectories, 1).sealed.commitment
    with pytest.raises(InputError) as caught:
        actor.reveal(old)
    assert caught.value.accepted == new


def test_one_ulp_on_any_input_norm_shows_on_both_sides_and_is_taken_back(actor, trajectories, tmp_path):
    before = actor.export(tmp_path / "w.safetensors", 0)
    alone = trajectories[:2]
    for layer in range(3):
        probed = actor.probe(layer, alone, 0)
        assert [len(row) for row in probed.recompute] == [7, 6]
        assert probed.recompute == probed.train
        assert probed.recompute_probed == probed.train_probed
        for plain, moved in zip(probed.recompute, probed.recompute_probed, strict=True):
            assert plain != moved
        assert digests(actor._masters.deployed) == before.deployed
    assert actor.recompute(alone, 0).sealed.commitment == bits.digest(
        np.concatenate([np.array(row, dtype=np.uint32) for row in probed.recompute])
    )


def test_a_probe_leaves_no_trace_in_the_round(model, trajectories, tmp_path):
    probed, untouched = tiny.actor(model), tiny.actor(model)
    probed.probe(1, trajectories, 0)
    probed.recompute(trajectories, 0)
    probed.probe(0, trajectories, 0)
    probed.train_forward(trajectories, REWARDS, 0)
    with pytest.raises(GateError):
        probed.probe(0, trajectories, 0)
    probed.step(0)
    probed.probe(2, trajectories, 1)
    run = probed.export(tmp_path / "w.safetensors", 1)
    *_, expected = run_round(untouched, trajectories, 0, tmp_path / "w.safetensors")
    assert (run.master, run.file_sha256) == (expected[1], expected[4])


def test_a_probe_runs_both_sides_and_the_unprobed_ones_once(actor, trajectories, tmp_path, monkeypatch):
    forwards = []
    logprobs = sides.Policy.logprobs

    def counted(self, members, *watch):
        forwards.append((torch.is_grad_enabled(), len(members)))
        return logprobs(self, members, *watch)

    monkeypatch.setattr(sides.Policy, "logprobs", counted)
    recompute, train = [(False, 2), (False, 1)], [(True, 3)]
    first = actor.probe(0, trajectories[:3], 0)
    # Under the probe the training forward runs first: a copy of the last recompute would not have moved.
    assert forwards == recompute + train + train + recompute
    actor.probe(1, trajectories[:3], 0)
    assert forwards[6:] == train + recompute
    actor.probe(1, trajectories[:2], 0)
    assert len(forwards) == 9 + 4
    monkeypatch.undo()
    run_round(actor, trajectories, 0, tmp_path / "w.safetensors")
    assert actor.probe(0, trajectories[:3], 1).recompute != first.recompute


def test_probe_wants_a_layer_of_the_model(actor, trajectories):
    with pytest.raises(InputError) as caught:
        actor.probe(3, trajectories, 0)
    assert str(caught.value) == ("actor.probe.layer: found 3; accepted: 0 to 2. Probe each layer of the model in turn.")


def test_export_writes_what_it_says(model, actor, trajectories, tmp_path):
    path = tmp_path / "policy.safetensors"
    first = actor.export(path, 0)
    assert (first.version, first.frozen) == (0, {})
    assert first.deployed == digests(seeded_weights(model))
    assert first.master == digests({name: weight.float() for name, weight in seeded_weights(model).items()})
    run_round(actor, trajectories, 0, path)
    second = actor.export(path, 1)
    sent = load_file(path)
    assert second.deployed == digests(sent)
    assert list(sent) == sorted(open_decoder(seeded_config(model)).parameter_shapes())
    assert {weight.dtype for weight in sent.values()} == {torch.bfloat16}
    assert second.file_sha256 == sha256_file(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["policy.safetensors"]


def test_a_tied_head_is_one_tensor(tmp_path):
    actor = tiny.actor(tiny.model(tie_word_embeddings=True))
    exported = actor.export(tmp_path / "w.safetensors", 0)
    assert "lm_head.weight" not in exported.deployed
    assert "lm_head.weight" not in load_file(tmp_path / "w.safetensors")


def test_export_into_no_folder(actor):
    with pytest.raises(InputError) as caught:
        actor.export(Path("/nowhere/policy.safetensors"), 0)
    assert str(caught.value) == (
        "path: found /nowhere/policy.safetensors, in a folder that does not exist; "
        "accepted: a file name in an existing folder. Make the folder first."
    )


def test_a_failed_export_leaves_the_old_file(actor, tmp_path, monkeypatch):
    path = tmp_path / "policy.safetensors"
    path.write_bytes(b"old")

    def no_room(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("samebits.actor.export.save_file", no_room)
    with pytest.raises(MachineError) as caught:
        actor.export(path, 0)
    assert str(caught.value) == (
        f"{path}: found [Errno 28] No space left on device; accepted: room and permission to write the weights. "
        "Free space or choose another folder for the run."
    )
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("policy.safetensors", b"old")]


def test_frozen_tensors_are_listed_and_never_move(model, trajectories, tmp_path, monkeypatch):
    name = "model.layers.1.self_attn.q_norm.weight"
    monkeypatch.setattr(type(open_decoder(seeded_config(model))), "frozen", lambda _: {name: "kept by this test"})
    actor = tiny.actor(model)
    before = actor.export(tmp_path / "w.safetensors", 0)
    assert before.frozen == {name: "kept by this test"}
    *_, after = run_round(actor, trajectories, 0, tmp_path / "w.safetensors")
    changed = {other for other in before.master if before.master[other] != after[1][other]}
    assert changed == set(before.master) - {name}


def test_replayed_steps_bring_a_fresh_actor_back(model, tmp_path):
    first, resumed = tiny.actor(model), tiny.actor(model)
    rounds = [run_round(first, tiny.trajectories(v), v, tmp_path / "w.safetensors") for v in range(3)]
    for version in range(2):
        replayed = resumed.replay_step(tiny.trajectories(version), REWARDS, version)
        assert (replayed.recompute.sealed.commitment, replayed.recompute.packs) == rounds[version][0]
        assert (replayed.train.sealed.commitment, replayed.train.packs) == rounds[version][1]
        with pytest.raises(InputError):
            resumed.reveal(replayed.recompute.sealed.commitment)
    exported = resumed.export(tmp_path / "w.safetensors", 2)
    assert (exported.master, exported.file_sha256) == (rounds[1][3][1], rounds[1][3][4])
    assert run_round(resumed, tiny.trajectories(2), 2, tmp_path / "w.safetensors") == rounds[2]


@pytest.mark.parametrize("length", [0, 40_000])
def test_key_slots_beyond_the_models_positions(model, monkeypatch, length):
    monkeypatch.setattr(tiny, "SLOTS", length)
    with pytest.raises(InputError) as caught:
        tiny.actor(model)
    assert str(caught.value) == (
        f"actor.max_model_len: found {length}; accepted: 1 to 32768. "
        "Use the engine's max_model_len, within the model's positions."
    )


def test_progress_counts_packs(actor, trajectories):
    seen = []
    actor.recompute(trajectories, 0, lambda done, total: seen.append((done, total)))
    actor.train_forward(trajectories, REWARDS, 0, lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3), (1, 2), (2, 2)]


def test_the_control_arms_op_set_runs_the_same_calls(model, trajectories, tmp_path):
    actor = tiny.actor(model, op_set="plain")
    built = actor.constructed()
    assert (built.op_set, built.dtype, built.layers, built.threads) == ("plain", "bfloat16", 3, 1)
    assert built.parameters == sum(weight.numel() for weight in seeded_weights(model).values())
    _, _, stepped, exported = run_round(actor, trajectories, 0, tmp_path / "w.safetensors")
    assert (stepped[0], exported[0]) == (1, 1)


def test_an_op_set_that_does_not_compute_the_family_is_refused(model):
    decoder = open_decoder({**seeded_config(model), "model_type": "llama"})
    decoder.config = {**decoder.config, "model_type": "deepseek_v4"}
    with pytest.raises(InputError) as caught:
        check_family(borrowed(), decoder)
    assert str(caught.value) == (
        "op_set: found 'torch' for a model of type 'deepseek_v4'; accepted: with this op set: llama, qwen3. "
        "Choose a recipe whose model the row's op set computes."
    )
    check_family(open_op_set("native"), decoder)


@pytest.mark.parametrize("side", ["recompute", "train"])
def test_a_traced_side_commits_to_what_it_would_have_computed_untraced(side, actor, trajectories):
    target = Target(sequence=2, token=len(trajectories[2].token_ids) - 1)
    traced = actor.trace(side, trajectories, 0, target)
    assert traced.sealed.commitment == actor.recompute(trajectories, 0).sealed.commitment
    names = [op.name for op in traced.traced.ops]
    assert names[0] == "model.embed_tokens"
    assert names[-2:] == ["lm_head", "logprob"]
    assert all(op.at(target.token - 1) is not None for op in traced.traced.ops)
    assert traced.traced.shape_at(target.token - 1).rows == len(trajectories[2].token_ids)
