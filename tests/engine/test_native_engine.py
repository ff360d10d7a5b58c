from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine_crowd import VOCAB, crowd, gate_for, outcome, request, settings, whole
from samebits import bits
from samebits.engine.native import NativeEngine, draw
from samebits.engine.protocol import Sealed, WholeSequence
from samebits.errors import GateError, InputError, MachineError
from samebits.integrity import digests, tensor_digest

CONSTRUCTION = {
    "tensor_parallel_size": 2,
    "pipeline_parallel_size": 2,
    "data_parallel_size": 2,
    "decode_context_parallel_size": 2,
    "enable_expert_parallel": True,
    "speculative_config": "ngram",
    "quantization": "fp8",
    "kv_cache_dtype": "fp8",
    "enable_prefix_caching": True,
    "enable_lora": True,
    "kv_connector": "NixlConnector",
    "async_rollout": True,
    "logprobs_mode": "processed_logprobs",
}


def save(folder, name, tensors):
    path = folder / name
    save_file(tensors, path)
    return path


@pytest.fixture
def weights(model_folder):
    return load_file(model_folder / "model.safetensors")


def test_what_was_constructed_is_read_back(engine):
    built = engine(max_num_seqs=5).constructed
    assert built.settings == settings(max_num_seqs=5)
    assert (built.op_set, built.dtype, built.threads) == ("native", "bfloat16", 1)
    assert built.parameters == 2 * VOCAB * 64 + 64 + 2 * (2 * 64 + 2 * 16 + 3 * 64 * 128 + 2 * 64 * 64 + 2 * 32 * 64)
    assert built.libraries == {"numpy": np.__version__, "torch": torch.__version__}
    assert torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("name", CONSTRUCTION)
def test_the_gate_refuses_what_the_row_does_not_name(model_folder, name):
    given = {**settings(), name: CONSTRUCTION[name]}
    with pytest.raises(GateError) as caught:
        NativeEngine(model_folder, op_set="native", settings=given, gate=gate_for(settings()))
    assert caught.value.field == f"engine.{name}"
    assert caught.value.found == repr(CONSTRUCTION[name])


@pytest.mark.parametrize("name", CONSTRUCTION)
def test_the_engine_refuses_what_it_cannot_do_even_if_a_row_accepts_it(engine, name):
    with pytest.raises(GateError) as caught:
        engine(**{name: CONSTRUCTION[name]})
    assert caught.value.field == f"engine.{name}"


@pytest.mark.parametrize(
    ("changed", "field", "accepted"),
    [
        ({"num_gpu_blocks": 7}, "num_gpu_blocks", "at least max_model_len = 64 tokens: one sequence must fit alone"),
        (
            {"max_num_batched_tokens": 15},
            "max_num_batched_tokens",
            "at least max_num_seqs = 16: all that run decode in every step",
        ),
        (
            {"max_num_batched_tokens": 63, "enable_chunked_prefill": False},
            "max_num_batched_tokens",
            "at least max_model_len = 64 without chunked prefill",
        ),
        (
            {"max_model_len": 65536, "num_gpu_blocks": 8192},
            "max_model_len",
            "at most 32768, the model's max_position_embeddings",
        ),
    ],
)
def test_settings_that_do_not_fit_together(engine, changed, field, accepted):
    with pytest.raises(GateError) as caught:
        engine(**changed)
    assert (caught.value.field, caught.value.accepted) == (f"engine.{field}", accepted)


def test_unknown_op_set(engine):
    with pytest.raises(InputError) as caught:
        engine("fast")
    assert (caught.value.field, caught.value.found) == ("op_set", "'fast'")


def test_a_refused_construction_leaves_torch_alone(engine):
    torch.use_deterministic_algorithms(False)
    with pytest.raises(GateError):
        engine(enable_lora=True, threads=2)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(
    ("sampling", "field"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"top_k": 1}, "top_k"),
        ({"seed": None}, "seed"),
        ({"seed": 5}, "seed"),
        ({"max_tokens": 3}, "max_tokens"),
        ({"stop_token_ids": [1]}, "stop_token_ids"),
        ({"top_kk": 0}, "top_kk"),
    ],
)
def test_one_refused_request_stops_the_whole_call(engine, sampling, field):
    one = engine()
    steps = []
    with pytest.raises(GateError) as caught:
        one.generate([*crowd(), request("r99", [1], sampling=sampling)], 0, steps.append)
    assert caught.value.field == f"request 'r99': {field}"
    assert steps == []


@pytest.mark.parametrize(
    ("requests", "field", "found"),
    [
        ([], "requests", "an empty list"),
        ([request("r1", [1]), request("r1", [2])], "request 'r1': request_id", "twice"),
        ([request("r1", [])], "request 'r1': prompt_token_ids", "an empty list"),
        ([request("r1", [1, VOCAB])], "request 'r1': prompt_token_ids", str(VOCAB)),
        ([request("r1", [-1])], "request 'r1': prompt_token_ids", "-1"),
        ([request("r1", [1] * 53)], "request 'r1': prompt with max_tokens", "65 tokens"),
        ([request("r1", [1], arrival_step=-1)], "request 'r1': arrival_step", "-1"),
    ],
)
def test_bad_requests(engine, requests, field, found):
    with pytest.raises(InputError) as caught:
        engine().generate(requests, 0)
    assert (caught.value.field, caught.value.found) == (field, found)


def test_the_longest_request_that_fits(engine):
    found = outcome(engine(), [request("r1", [1] * 52)])
    assert len(found["r1"][0]) == 12


def test_a_stop_token_ends_a_response(engine):
    one = engine()
    tokens, patterns = outcome(one, [request("r1", [1, 2, 3])])["r1"]
    stopping = request("r1", [1, 2, 3], stop_token_ids=[tokens[4]])
    generated = one.generate([stopping], 0)
    cut = tokens.index(tokens[4]) + 1
    assert generated.trajectories[0].finish_reason == "stop"
    assert generated.trajectories[0].token_ids == tokens[:cut]
    assert one.reveal(generated.sealed.commitment) == [patterns[:cut]]


def test_logprobs_are_sealed_with_their_digest(engine):
    one = engine()
    generated = one.generate(crowd(3), 0)
    patterns = one.reveal(generated.sealed.commitment)
    flat = np.array([pattern for row in patterns for pattern in row], dtype=np.uint32)
    assert generated.sealed.commitment == bits.digest(flat)
    assert generated.sealed.tokens == len(flat) == 36
    assert bits.is_finite(flat).all()
    assert (bits.to_float32(flat) < 0).all()
    assert len(set(flat.tolist())) > 30
    assert [len(one.token_ids) for one in generated.trajectories] == [len(row) for row in patterns]
    assert sum(generated.batch_sizes) == generated.counters.prefill_tokens + generated.counters.decode_tokens


def test_reveal_of_something_never_committed_to(engine):
    with pytest.raises(InputError) as caught:
        engine().reveal("ab" * 32)
    assert (caught.value.field, caught.value.found) == ("reveal.commitment", "ab" * 32)


def test_another_weight_version_is_refused(engine):
    one = engine()
    for call in (
        lambda: one.generate(crowd(1), 1),
        lambda: one.score([WholeSequence(token_ids=[1, 2], prompt_length=1)], 1),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == (
            "version: found 1; accepted: 0, the weight version in the engine. "
            "Refit first, or ask for the version that is loaded."
        )


def test_refit_changes_what_is_generated_and_says_what_arrived(engine, weights, tmp_path):
    one = engine()
    before = outcome(one, crowd(3))
    moved = {name: weight * 1.25 for name, weight in weights.items()}
    path = save(tmp_path, "v1.safetensors", moved)
    refitted = one.refit(path, 1)
    assert refitted.version == 1
    assert refitted.arrived == refitted.loaded == digests(moved)
    generated = one.generate(crowd(3), 1)
    assert {(one.weight_version_start, one.weight_version_end) for one in generated.trajectories} == {(1, 1)}
    assert one.reveal(generated.sealed.commitment) != [row for _, row in before.values()]
    one.refit(save(tmp_path, "v2.safetensors", weights), 2)
    assert outcome(one, crowd(3), 2) == before


def test_refit_reads_the_file_once(engine, weights, tmp_path):
    one = engine()
    path = save(tmp_path, "v1.safetensors", weights)
    one.refit(path, 1)
    before = outcome(one, crowd(2), 1)
    path.write_bytes(b"\0" * path.stat().st_size)
    assert outcome(one, crowd(2), 1) == before


def test_loaded_is_what_is_in_the_engine_not_what_arrived(engine, weights, tmp_path):
    one = engine()
    name = "model.norm.weight"
    one.weights.tensors[name] = one.weights.tensors[name].float()  # a loader that casts
    refitted = one.refit(save(tmp_path, "v1.safetensors", weights), 1)
    assert [key for key in weights if refitted.loaded[key] != refitted.arrived[key]] == [name]
    assert refitted.loaded[name] == tensor_digest(weights[name].float())


def test_the_initial_version_may_be_loaded_again_until_it_is_used(engine, weights, tmp_path):
    one = engine()
    path = save(tmp_path, "v0.safetensors", weights)
    assert one.refit(path, 0).version == 0
    one.generate(crowd(1), 0)
    with pytest.raises(InputError) as caught:
        one.refit(path, 0)
    assert (caught.value.found, caught.value.accepted) == ("0", "more than 0, which is in use")
    one.refit(path, 3)
    with pytest.raises(InputError) as caught:
        one.refit(path, 2)
    assert (caught.value.found, caught.value.accepted) == ("2", "3 or more")


@pytest.mark.parametrize("fault", ["missing", "unexpected", "misshapen", "cast", "truncated", "absent"])
def test_a_refit_that_is_not_whole_changes_nothing(engine, weights, tmp_path, fault):
    one = engine()
    before = outcome(one, crowd(2))
    name = "model.layers.1.mlp.up_proj.weight"
    broken = {key: weight + 1 for key, weight in weights.items()}
    if fault == "missing":
        del broken[name]
    elif fault == "unexpected":
        broken["model.layers.7.mlp.up_proj.weight"] = broken[name].clone()
    elif fault == "misshapen":
        broken[name] = broken[name].t().contiguous()
    elif fault == "cast":
        broken[name] = broken[name].float()
    path = save(tmp_path, "v1.safetensors", broken)
    if fault == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif fault == "absent":
        path.unlink()
    with pytest.raises(InputError):
        one.refit(path, 1)
    assert outcome(one, crowd(2)) == before


def test_no_refit_while_requests_are_in_flight(engine, weights, tmp_path):
    one = engine()
    path = save(tmp_path, "v1.safetensors", {name: weight + 1 for name, weight in weights.items()})
    refused = []

    def refit(now):
        if now.step == 2:
            with pytest.raises(GateError) as caught:
                one.refit(path, 1)
            refused.append(str(caught.value))

    generated = one.generate(crowd(3), 0, refit)
    (message,) = refused
    assert message == (
        "engine.refit: found 3 request(s) in flight; accepted: none. "
        "Let them finish or cancel them first: a trajectory has one weight version (rule 5)."
    )
    assert {one.weight_version_end for one in generated.trajectories} == {0}
    one.refit(path, 1)


def test_broken_weights_are_no_distribution(engine, weights, tmp_path):
    one = engine()
    weights["model.norm.weight"].fill_(float("nan"))
    one.refit(save(tmp_path, "v1.safetensors", weights), 1)
    with pytest.raises(MachineError) as caught:
        one.generate(crowd(1), 1)
    assert (caught.value.field, caught.value.found) == (
        "logits of request 'r0', response token 0",
        "the largest logit is nan",
    )


def test_a_failed_call_leaves_the_engine_fit_for_the_next(engine):
    one = engine(num_gpu_blocks=9)
    before = outcome(one, crowd())

    def fail(now):
        if now.step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one.generate(crowd(), 0, fail)
    assert not one.cancel("r0")
    assert outcome(one, crowd()) == before


def test_progress_after_every_step(engine):
    one = engine(max_num_seqs=2)
    seen = []
    generated = one.generate(crowd(3), 0, seen.append)
    assert [now.step for now in seen] == list(range(1, generated.counters.steps + 1))
    assert (seen[0].running, seen[0].waiting, seen[0].finished, seen[0].requests) == (2, 1, 0, 3)
    assert (seen[-1].running, seen[-1].waiting, seen[-1].finished) == (0, 0, 3)
    assert seen[-1].tokens == 36
    assert seen[-1].tokens_per_second > 0


def test_all_cancelled_before_anything_was_sampled(engine):
    one = engine(max_num_batched_tokens=16, max_num_seqs=1)
    generated = one.generate(crowd(1), 0, lambda _: one.cancel("r0"))
    assert generated.trajectories[0].token_ids == []
    assert generated.sealed == Sealed(
        commitment=bits.digest(np.empty(0, dtype=np.uint32)), tokens=0, seconds=generated.sealed.seconds
    )


@pytest.mark.parametrize(
    ("tokens", "prompt_length", "field"),
    [
        ([1, 2], 0, "sequences[1].prompt_length"),
        ([1, 2], 3, "sequences[1].prompt_length"),
        ([], 0, "sequences[1].prompt_length"),
        ([1] * 65, 3, "sequences[1].token_ids"),
        ([1, VOCAB], 1, "sequences[1].token_ids"),
    ],
)
def test_sequences_that_cannot_be_scored(engine, tokens, prompt_length, field):
    good = WholeSequence(token_ids=[1, 2], prompt_length=1)
    with pytest.raises(InputError) as caught:
        engine().score([good, WholeSequence(token_ids=tokens, prompt_length=prompt_length)], 0)
    assert caught.value.field == field


def test_scoring_in_any_company(engine):
    one = engine()
    found = outcome(one, crowd())
    sequences = whole(crowd(), found)
    sequences.insert(2, WholeSequence(token_ids=[4, 5], prompt_length=2))  # nothing to score
    together = one.reveal(one.score(sequences, 0).commitment)
    apart = [one.reveal(one.score([sequence], 0).commitment)[0] for sequence in sequences]
    assert together == apart
    assert together[2] == []


def test_smoke_decodes_greedily_on_demand(engine):
    one = engine(sampling_mode="smoke")
    greedy = [request("r1", [1, 2, 3], seed=seed, sampling={"temperature": 0.0}) for seed in (1, 2)]
    first, second = (outcome(one, [each])["r1"] for each in greedy)
    assert first == second
    sampled = outcome(one, [request("r1", [1, 2, 3])])["r1"]
    assert sampled != first
    assert one.effective()["sampling_mode"] == "smoke"


def test_no_row_gate_lets_smoke_in(model_folder):
    with pytest.raises(GateError) as caught:
        NativeEngine(
            model_folder,
            op_set="native",
            settings={**settings(), "sampling_mode": "smoke"},
            gate=gate_for(settings()),
        )
    assert (caught.value.field, caught.value.found) == ("engine.sampling_mode", "an unknown setting")


def test_a_model_folder_that_is_not_whole(engine, model_folder, tmp_path):
    folder = shutil.copytree(model_folder, tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(InputError) as caught:
        engine(folder=folder)
    assert caught.value.field.startswith("model.safetensors: model.layers.2.")


def test_draw_counts():
    counts = draw([0.0, 1.0, -1e9], samples=1000, seed=3)
    assert sum(counts) == 1000
    assert counts[2] == 0
    assert counts == draw([0.0, 1.0, -1e9], samples=1000, seed=3)
    assert counts != draw([0.0, 1.0, -1e9], samples=1000, seed=4)


@pytest.mark.parametrize(
    ("logits", "samples", "seed"), [([], 1, 0), ([float("nan")], 1, 0), ([0.0], 0, 0), ([0.0], 1, -1)]
)
def test_draw_of_nothing(logits, samples, seed):
    with pytest.raises(InputError) as caught:
        draw(logits, samples=samples, seed=seed)
    assert caught.value.field == "draw"


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [("quantization", "fp8", "unset"), ("kv_cache_dtype", "fp8_ds_mla", "'auto'")],
)
def test_a_format_that_the_model_does_not_have(engine, name, value, accepted):
    with pytest.raises(GateError) as caught:
        engine(**{name: value})
    assert str(caught.value) == (
        f"engine.{name}: found '{value}'; accepted: {accepted}. "
        "Use the format that the model has, or leave it out: the actor computes in the model's own."
    )
