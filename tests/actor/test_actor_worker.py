from __future__ import annotations

import sys

import pytest

from samebits.actor.protocol import Computed, Constructed, Exported, Probed, Replayed, Stepped, Tokens
from samebits.actor.worker import ActorWorker, main
from samebits.environment import worker_environment
from samebits.errors import GateError, InputError, WorkerError
from samebits.integrity import digests
from samebits.models import save_folder, seeded_config, seeded_weights
from samebits.spool import Worker, from_message, to_message

from .tiny import GATE, REWARDS, SETTINGS, SLOTS


@pytest.fixture(scope="session")
def folder(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_folder(path, seeded_config(model), seeded_weights(model))
    return path


@pytest.fixture
def construct(folder):
    return {
        "model_folder": str(folder),
        "op_set": "native",
        "settings": SETTINGS,
        "max_model_len": SLOTS,
        "gate": GATE,
        "switches": {},
    }


@pytest.fixture
def call():
    handlers = ActorWorker().handlers()
    return lambda method, **parameters: handlers[method](parameters, lambda **_: None)


def test_nothing_works_before_construct(call):
    with pytest.raises(InputError) as caught:
        call("step", version=0)
    assert str(caught.value) == (
        "actor: found nothing constructed; accepted: a call of construct that succeeded. Construct the actor first."
    )


@pytest.mark.parametrize(
    ("change", "error", "field"),
    [
        ({"settings": {**SETTINGS, "force_on_policy_ratio": True}}, GateError, "actor.force_on_policy_ratio"),
        ({"settings": {**SETTINGS, "train_pack": 2}}, GateError, "actor.train_pack"),
        ({"settings": {**SETTINGS, "threads": 9}}, GateError, "actor.threads"),
        ({"op_set": "nativ"}, InputError, "op_set"),
        ({"max_model_len": 0}, InputError, "actor.max_model_len"),
        ({"model_folder": "/nowhere"}, InputError, "/nowhere/config.json"),
        ({"gate": {"threads": "all"}}, InputError, "gate.actor.threads"),
        ({"gate": None}, WorkerError, "construct.gate"),
        ({"switches": {"batch_invariant": True}}, InputError, "switches.batch_invariant"),
    ],
)
def test_a_refused_construct_leaves_the_live_actor_as_it_is(call, construct, trajectories, change, error, field):
    call("construct", **construct)
    sealed = call("recompute", trajectories=[to_message(one) for one in trajectories], version=0).sealed
    with pytest.raises(error) as caught:
        call("construct", **{**construct, **change})
    assert caught.value.field == field
    assert len(call("reveal", commitment=sealed.commitment)["patterns"]) == 5
    call("train_forward", trajectories=[to_message(one) for one in trajectories], rewards=REWARDS, version=0)


def test_logprobs_have_no_way_in(call, construct, trajectories):
    call("construct", **construct)
    message = [to_message(one) for one in trajectories]
    message[1]["logprobs"] = [0]
    with pytest.raises(WorkerError) as caught:
        call("recompute", trajectories=message, version=0)
    assert caught.value.field == "recompute.trajectories[1].logprobs"


def test_usage():
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == "usage: python -m samebits.actor.worker SPOOL"


def test_a_round_in_a_process_of_its_own(construct, model, trajectories, tmp_path):
    spool, path = tmp_path / "spool", tmp_path / "policy.safetensors"
    message = [to_message(one) for one in trajectories]
    rewarded = {"trajectories": message, "rewards": REWARDS}
    notes = []
    with Worker.start(
        name="actor",
        command=[sys.executable, "-m", "samebits.actor.worker", str(spool)],
        spool=spool,
        log=tmp_path / "actor.log",
        environment=worker_environment(1),
    ) as worker:

        def call(cls, method, **parameters):
            return from_message(cls, worker.call(method, parameters, timeout=60, on_progress=notes.append))

        built = call(Constructed, "construct", **construct)
        assert (built.op_set, built.layers, built.threads) == ("native", 3, 1)
        assert built.settings == {**SETTINGS, "max_model_len": SLOTS}
        assert sorted(built.libraries) == ["safetensors", "torch"]
        with pytest.raises(GateError) as caught:
            call(Computed, "train_forward", **rewarded, version=0)
        assert caught.value.field == "actor.train_forward"
        assert call(Probed, "probe", layer=2, trajectories=message[:1], version=0).layer == 2
        recompute = call(Computed, "recompute", trajectories=message, version=0)
        train = call(Computed, "train_forward", **rewarded, version=0)
        assert recompute.sealed.commitment == train.sealed.commitment
        patterns = worker.call("reveal", {"commitment": train.sealed.commitment}, timeout=60)["patterns"]
        assert [len(row) for row in patterns] == [7, 6, 11, 1, 15]
        assert call(Stepped, "step", version=0).version == 1
        assert call(Replayed, "replay_step", **rewarded, version=1).stepped.version == 2
        exported = call(Exported, "export", path=str(path), version=2, digests=True)
    assert {"packs": 2, "of": 2} in notes
    assert exported.deployed.keys() == seeded_weights(model).keys()
    assert exported.deployed != digests(seeded_weights(model))


def test_tokens_carry_ids_only():
    assert [*Tokens.__dataclass_fields__] == ["request_id", "token_ids", "prompt_length", "group"]
