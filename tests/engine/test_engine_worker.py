"""The engine in its own process, over a real spool, as the parent meets it."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from safetensors.torch import load_file

from engine_crowd import crowd, gate_for, outcome, settings, whole
from samebits import bits
from samebits.engine.protocol import Constructed, Generated, Refitted, Sealed, TracedCall
from samebits.engine.worker import main
from samebits.environment import worker_environment
from samebits.errors import GateError, InputError, WorkerError
from samebits.integrity import digests
from samebits.spool import Worker, from_message, to_message
from samebits.traced import Target


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    place = tmp_path_factory.mktemp("spool")
    started = Worker.start(
        name="engine",
        command=[sys.executable, "-m", "samebits.engine.worker", str(place / "engine")],
        spool=place / "engine",
        log=place / "engine.log",
        environment=worker_environment(1),
    )
    with started:
        yield started


@pytest.fixture
def construct(model_folder):
    def parameters(gate=None, **changed):
        given = settings(**changed)
        return {
            "model_folder": str(model_folder),
            "op_set": "native",
            "settings": given,
            "gate": gate or gate_for(given),
        }

    return parameters


def call_generate(worker, requests, version=0, on_progress=None):
    parameters = {"requests": [to_message(one) for one in requests], "version": version}
    return from_message(Generated, worker.call("generate", parameters, on_progress=on_progress))


def test_nothing_works_before_construct(worker):
    for method, parameters in (
        ("generate", {"requests": [], "version": 0}),
        ("score", {"sequences": [], "version": 0}),
        ("refit", {"path": "x", "version": 0, "digests": True}),
        ("draw", {"logits": [0.0, 1.0], "samples": 100, "seed": 1}),
        ("reveal", {"commitment": ""}),
        ("effective", {}),
    ):
        with pytest.raises(InputError) as caught:
            worker.call(method, parameters)
        assert (caught.value.field, caught.value.found) == ("engine", "nothing constructed")


def test_the_sampler_alone_counts_what_it_drew(worker, construct):
    worker.call("construct", construct())
    assert sum(worker.call("draw", {"logits": [0.0, 1.0], "samples": 100, "seed": 1})["counts"]) == 100


def test_a_round_over_the_spool(worker, construct, engine, model_folder):
    built = from_message(Constructed, worker.call("construct", construct()))
    assert (built.settings, built.op_set, built.threads) == (settings(), "native", 1)
    assert worker.call("effective", {})["settings"] == settings()

    path = model_folder / "model.safetensors"
    refitted = from_message(Refitted, worker.call("refit", {"path": str(path), "version": 0, "digests": True}))
    assert refitted.arrived == refitted.loaded == digests(load_file(path))

    notes = []
    generated = call_generate(worker, crowd(), on_progress=notes.append)
    assert notes[-1]["finished"] == notes[-1]["requests"] == 8
    patterns = worker.call("reveal", {"commitment": generated.sealed.commitment})["patterns"]
    assert (
        bits.digest(np.array([pattern for row in patterns for pattern in row], dtype=np.uint32))
        == generated.sealed.commitment
    )
    found = {one.request_id: (one.token_ids, row) for one, row in zip(generated.trajectories, patterns, strict=True)}
    assert found == outcome(engine(), crowd())  # another process, the same bits

    sequences = [to_message(one) for one in whole(crowd(), found)]
    scored = from_message(Sealed, worker.call("score", {"sequences": sequences, "version": 0}))
    assert scored.commitment == generated.sealed.commitment


def test_a_refused_construction_leaves_the_live_engine_untouched(worker, construct):
    worker.call("construct", construct())
    before = call_generate(worker, crowd(2))
    with pytest.raises(GateError) as caught:
        worker.call("construct", construct(gate=gate_for(settings()), enable_lora=True))
    assert str(caught.value) == (
        "engine.enable_lora: found True; accepted: false. "
        "Use an accepted value; this row has not been certified with any other."
    )
    with pytest.raises(InputError):
        worker.call("construct", {**construct(), "model_folder": "/nowhere"})
    after = call_generate(worker, crowd(2))
    assert after.sealed.commitment == before.sealed.commitment
    assert after.trajectories == before.trajectories
    assert worker.call("effective", {})["settings"] == settings()


def test_a_traced_call_is_the_call(worker, construct):
    worker.call("construct", construct())
    plain = call_generate(worker, crowd(3))
    prompt, answer = crowd(3)[1].prompt_token_ids, plain.trajectories[1].token_ids
    target = to_message(Target(sequence=1, token=len(prompt) + len(answer) - 1))
    sequences = [
        {"token_ids": [*asked.prompt_token_ids, *one.token_ids], "prompt_length": len(asked.prompt_token_ids)}
        for asked, one in zip(crowd(3), plain.trajectories, strict=True)
    ]
    asked = {"requests": [to_message(one) for one in crowd(3)], "sequences": [], "version": 0, "target": target}
    rollout = from_message(TracedCall, worker.call("trace", asked))
    prefill = from_message(TracedCall, worker.call("trace", {**asked, "requests": [], "sequences": sequences}))
    assert rollout.trajectories == plain.trajectories
    assert rollout.sealed.commitment == prefill.sealed.commitment == plain.sealed.commitment
    last = len(prompt) + len(answer) - 2
    assert [(op.name, op.at(last)) for op in rollout.traced.ops] == [
        (op.name, op.at(last)) for op in prefill.traced.ops
    ]
    assert rollout.traced.shape_at(last).rows == 1
    assert prefill.traced.shape_at(last).rows == last + 1
    assert call_generate(worker, crowd(3)).sealed.commitment == plain.sealed.commitment


def test_a_refused_request_leaves_it_untouched_too(worker, construct):
    worker.call("construct", construct())
    before = call_generate(worker, crowd(2))
    message = to_message(crowd(1)[0])
    message["sampling"]["top_p"] = 0.9
    with pytest.raises(GateError) as caught:
        worker.call("generate", {"requests": [message], "version": 0})
    assert caught.value.field == "request 'r0': top_p"
    assert call_generate(worker, crowd(2)).sealed.commitment == before.sealed.commitment


def test_parameters_are_closed(worker, construct):
    with pytest.raises(WorkerError) as caught:
        worker.call("construct", {**construct(), "trust_me": True})
    assert (caught.value.field, caught.value.found) == ("construct.trust_me", "an unknown field")


def test_usage():
    with pytest.raises(SystemExit, match=r"^usage: python -m samebits\.engine\.worker SPOOL$"):
        main([])
