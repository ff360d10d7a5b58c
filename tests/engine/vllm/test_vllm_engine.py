"""The real vLLM, whole, in its worker process behind a spool, as a certification drives it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.stats import chisquare

from samebits import pins
from samebits.certify.arm import EngineClient
from samebits.engine.protocol import Request, WholeSequence
from samebits.environment import StackEnvironment
from samebits.errors import GateError, InputError, MachineError
from samebits.integrity import digests
from samebits.models import save_folder, seeded_config, seeded_weights
from samebits.recipe import CONFORMING
from samebits.spool import Worker
from vllm_asked import EXCLUDED, MODEL, ROW_EXCLUDED, VOCAB, crowd, gate_for, settings

pytestmark = pytest.mark.vllm

CONFIGURATIONS = Path(__file__).with_name("configurations.py")


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    row, _ = pins.load("cpu-vllm-0.32")
    named = os.environ.get("SAMEBITS_VLLM_PYTHON")
    python = Path(named) if named else pins.stack.find(row)
    if python is None:
        pytest.skip(
            "no vLLM: SAMEBITS_VLLM_PYTHON names no interpreter, and `samebits stack cpu-vllm-0.32` was not run"
        )
    return StackEnvironment(python, tmp_path_factory.mktemp("kit"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("model")
    save_folder(made, seeded_config(MODEL), seeded_weights(MODEL))
    return made


@contextlib.contextmanager
def engine(stack, scratch):
    with Worker.start(
        name="engine",
        command=stack.command("samebits.engine.worker", str(scratch / "spool")),
        spool=scratch / "spool",
        log=scratch / "log",
        environment=stack.environment(2),
        wait=False,
    ) as worker:
        yield EngineClient(worker)


def construct(client, folder, **changed):
    asked = settings(**changed)
    return client.construct(model_folder=str(folder), op_set="vllm-cpu", settings=asked, gate=gate_for(asked))


@pytest.fixture(scope="module")
def aligned(stack, folder, tmp_path_factory):
    with engine(stack, tmp_path_factory.mktemp("aligned")) as client:
        built = construct(client, folder)
        assert built.settings == settings()
        yield client


@pytest.fixture
def another(stack, tmp_path):
    with engine(stack, tmp_path) as client:
        yield client


def rollout(client, requests, version=0):
    """By request id, tokens and patterns."""
    generated = client.generate(requests, version)
    patterns = client.reveal(generated.sealed.commitment)
    return generated, {
        one.request_id: (one.token_ids, row) for one, row in zip(generated.trajectories, patterns, strict=True)
    }


def prefill(client, requests, found, version=0):
    sequences = [
        WholeSequence(
            token_ids=[*one.prompt_token_ids, *found[one.request_id][0]], prompt_length=len(one.prompt_token_ids)
        )
        for one in requests
    ]
    patterns = client.reveal(client.score(sequences, version).commitment)
    return {one.request_id: (found[one.request_id][0], row) for one, row in zip(requests, patterns, strict=True)}


def mismatches(one, other):
    assert one.keys() == other.keys()
    return sum(
        left != right
        for name in one
        for left, right in zip([*one[name][0], *one[name][1]], [*other[name][0], *other[name][1]], strict=True)
    )


@pytest.fixture(scope="module")
def first(aligned):
    return rollout(aligned, crowd())


def test_what_is_built_is_what_was_asked(aligned, folder):
    built = construct(aligned, folder)
    assert built.settings == settings()
    assert (built.op_set, built.dtype, built.threads) == ("vllm-cpu", "bfloat16", 2)
    assert built.parameters == sum(weight.numel() for weight in load_file(folder / "model.safetensors").values())
    assert built.libraries["vllm"] == "0.32.0"
    assert aligned.worker.call("effective", {}, timeout=60)["settings"] == settings()


def test_the_scheduler_was_really_put_to_the_test(first):
    generated, found = first
    counters = generated.counters
    assert counters.preemptions >= 1
    assert counters.chunked_prefills == 0
    assert counters.max_running >= 3
    assert counters.distinct_batch_sizes >= 3
    assert counters.pages_in_use_max <= 12
    assert counters.steps == len(generated.batch_sizes)
    assert counters.prefill_tokens + counters.decode_tokens == sum(generated.batch_sizes)
    # Every answer's tokens but the first of each admission come from a decode.
    assert counters.decode_tokens == sum(len(tokens) - 1 for tokens, _ in found.values()) - counters.preemptions
    assert {(one.weight_version_start, one.weight_version_end) for one in generated.trajectories} == {(0, 0)}


def test_a_stop_token_belongs_to_the_answer(first):
    generated, found = first
    stopped = [one for one in generated.trajectories if one.finish_reason == "stop"]
    assert stopped
    for one in generated.trajectories:
        ends = [token for token in one.token_ids if token in {7, 9}]
        assert ends == ([one.token_ids[-1]] if one.finish_reason == "stop" else [])
        assert len(found[one.request_id][1]) == len(one.token_ids)
        assert (len(one.token_ids) == 40) >= (one.finish_reason == "length")


@pytest.mark.parametrize("requests", [crowd(), crowd()[::-1]], ids=["again", "in reverse"])
def test_the_same_bits_again(aligned, first, requests):
    assert mismatches(rollout(aligned, requests)[1], first[1]) == 0


@pytest.mark.parametrize("index", [0, 4, 7])
def test_the_same_bits_alone(aligned, first, index):
    request = crowd()[index]
    assert mismatches(rollout(aligned, [request])[1], {request.request_id: first[1][request.request_id]}) == 0


def test_the_same_bits_in_its_own_prefill(aligned, first):
    assert mismatches(prefill(aligned, crowd(), first[1]), first[1]) == 0


def test_without_the_switch_bits_depend_on_the_batch(another, folder):
    construct(another, folder, attention_split_kv=True)
    _, found = rollout(another, crowd())
    backwards = rollout(another, crowd()[::-1])[1]
    differing = [name for name in found if found[name][1] != backwards[name][1]]
    assert differing
    # One of the two at least is not what its own prefill computes.
    assert mismatches(prefill(another, crowd(), found), found) + mismatches(
        prefill(another, crowd(), backwards), backwards
    )


def test_refit_and_back(aligned, folder, first, tmp_path):
    weights = load_file(folder / "model.safetensors")
    changed = {name: (weight.float() * 1.01).to(weight.dtype) for name, weight in weights.items()}
    changed["model.layers.0.mlp.up_proj.weight"][0, 0] = -0.0
    changed["model.layers.1.self_attn.k_proj.weight"][3, :5] = 0.0
    save_file(changed, tmp_path / "new.safetensors")
    refitted = aligned.refit(tmp_path / "new.safetensors", 1)
    assert refitted.version == 1
    assert refitted.arrived == digests(changed)
    assert refitted.loaded == refitted.arrived
    with pytest.raises(InputError) as caught:
        aligned.generate(crowd(1), 0)
    assert caught.value.field == "version"
    _, found = rollout(aligned, crowd(), 1)
    assert [tokens for tokens, _ in found.values()] != [tokens for tokens, _ in first[1].values()]
    assert mismatches(prefill(aligned, crowd(), found, 1), found) == 0
    with pytest.raises(InputError) as caught:
        aligned.refit(tmp_path / "new.safetensors", 1)
    assert caught.value.accepted == "more than 1, which is in use"
    silent = aligned.refit(folder / "model.safetensors", 2, digests=False)
    assert (silent.arrived, silent.loaded) == ({}, {})
    assert mismatches(rollout(aligned, crowd(), 2)[1], first[1]) == 0
    # Whoever runs next finds the weights of the folder under a version that he does not expect: begin again.
    construct(aligned, folder)
    assert mismatches(rollout(aligned, crowd())[1], first[1]) == 0


def test_a_file_that_is_not_this_model_changes_nothing(aligned, folder, first, tmp_path):
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, tmp_path / "short.safetensors")
    with pytest.raises(InputError) as caught:
        aligned.refit(tmp_path / "short.safetensors", 5)
    assert "model.norm.weight" in str(caught.value)
    assert mismatches(rollout(aligned, crowd())[1], first[1]) == 0


NONCONFORMING = {
    "temperature": 0.0,
    "top_p": 0.95,
    "top_k": 1,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "logit_bias": {"11": 5.0},
    "bad_words": ["the"],
    "allowed_token_ids": [1, 2, 3],
    "structured_outputs": {"regex": "[0-9]+"},
    "logits_processors": ["my.processor"],
    "min_tokens": 4,
    "ignore_eos": True,
    "n": 2,
    "extra_args": {"a": 1},
    "best_of": 2,
    "beam_width": 4,
}


@pytest.mark.parametrize("name", NONCONFORMING)
def test_a_request_that_does_not_conform(aligned, name):
    asked = Request(
        request_id="odd",
        prompt_token_ids=[1, 2, 3],
        max_tokens=2,
        seed=0,
        stop_token_ids=[],
        sampling={**CONFORMING, name: NONCONFORMING[name]},
    )
    with pytest.raises(GateError) as caught:
        aligned.generate([asked], 0)
    assert caught.value.field == f"request 'odd': {name}"


def test_a_sequence_without_room_for_the_token_that_vllm_must_draw(aligned):
    with pytest.raises(InputError) as caught:
        aligned.score([WholeSequence(token_ids=[1] * 192, prompt_length=10)], 0)
    assert caught.value.accepted == "at most max_model_len = 191"


def test_the_sampler_alone_draws_from_the_softmax(aligned):
    logits = [4.0 * math.sin(1.7 * index) for index in range(64)]
    counts = aligned.draw(logits, 200_000, 20_251_130)
    expected = torch.softmax(torch.tensor(logits, dtype=torch.float64), 0) * 200_000
    assert sum(counts) == 200_000
    assert chisquare(counts, expected.numpy()).pvalue > 1e-4
    assert aligned.draw(logits, 1000, 5) == aligned.draw(logits, 1000, 5)
    assert aligned.draw(logits, 1000, 5) != aligned.draw(logits, 1000, 6)


def test_progress_of_every_step(aligned):
    news = []
    generated = aligned.generate(crowd(3), 0, news.append)
    assert news
    assert news[-1]["finished"] == news[-1]["requests"] == 3
    assert news[-1]["tokens"] == sum(len(one.token_ids) for one in generated.trajectories)


def test_a_refused_configuration_leaves_the_engine_as_it_is(aligned, folder, first):
    for name, value in {"tensor_parallel_size": 2, "enable_lora": True, "sleepy": True}.items():
        with pytest.raises(GateError) as caught:
            aligned.construct(
                model_folder=str(folder),
                op_set="vllm-cpu",
                settings=settings(**{name: value}),
                gate=gate_for(settings()),
            )
        assert caught.value.field == f"engine.{name}"
    with pytest.raises(GateError) as caught:
        construct(aligned, folder, attention_split_kv=True)
    assert caught.value.found == "VLLM_CPU_ATTN_SPLIT_KV=1"
    assert mismatches(rollout(aligned, crowd(3))[1], {f"r{index}": first[1][f"r{index}"] for index in range(3)}) == 0


def test_a_silent_fallback_is_a_refusal(another, folder):
    """vLLM takes CPU_ATTN for TRITON_ATTN, and no asynchronous scheduler, without a word: a whole engine each."""
    for name, value, found in (
        ("attention_backend", "TRITON_ATTN", "'CPU_ATTN' in the live engine"),
        ("async_scheduling", True, "False in the live engine"),
        ("threads", 1, "OMP_NUM_THREADS"),
    ):
        with pytest.raises(GateError) as caught:
            construct(another, folder, **{name: value})
        assert caught.value.field == f"engine.{name}"
        assert found in caught.value.found
    assert construct(another, folder).settings == settings()


def test_the_flag_on_a_cpu_fails_at_the_first_forward(another, folder):
    """A row that let the flag through would learn it from vLLM: a Triton kernel, and no Triton."""
    assert construct(another, folder, batch_invariant=True).settings["batch_invariant"] is True
    with pytest.raises(MachineError) as caught:
        another.generate(crowd(2), 0)
    assert caught.value.field == "engine: generate"
    assert caught.value.found.startswith("TypeError: ")


OUTCOMES = {
    "tensor_parallel_size": "as asked",
    "pipeline_parallel_size": "refused: NotImplementedError: Pipeline Parallelism without Ray",
    "data_parallel_size": "as asked",
    "decode_context_parallel_size": "refused: ValidationError: 1 validation error for ParallelConfig",
    "enable_expert_parallel": "refused: ValidationError: 1 validation error for VllmConfig",
    "quantization": "as asked",
    "kv_cache_dtype": "as asked",
    "enable_prefix_caching": "as asked",
    "enable_chunked_prefill": "as asked",
    "enable_lora": "as asked",
    "logprobs_mode": "as asked",
    "attention_backend": "as asked",
    "enforce_eager": "as asked",
    "async_scheduling": "changed to False",
    "enable_dbo": "changed to False",
    "generation_config": "as asked",
    "enable_sleep_mode": "refused: ValidationError: 1 validation error for ModelConfig",
    "speculative_config": "as asked",
    "kv_transfer_config": "as asked",
    "compilation_config": "changed to [2, 'NONE']",
    "nonsense_argument": "refused: unknown to this vLLM",
}
"""What vLLM 0.32.0 on a CPU itself makes of configurations that the gate refuses: mostly, it takes them."""


def test_what_vllm_would_have_done(stack, folder):
    done = subprocess.run(
        [str(stack.python), str(CONFIGURATIONS), str(folder)],
        env=stack.environment(1),
        input=json.dumps(settings()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found.keys() == OUTCOMES.keys()
    assert {name: words for name, words in found.items() if not words.startswith(OUTCOMES[name])} == {}


def test_every_configuration_of_that_table_is_refused_by_the_gate():
    """By the setting's own name, or because no setting has the argument's name."""
    settings_of = {"kv_transfer_config": "kv_connector", "compilation_config": "compilation_mode"}
    refused = EXCLUDED.keys() | ROW_EXCLUDED.keys()
    no_setting = {"enable_sleep_mode", "nonsense_argument"}
    assert {settings_of.get(name, name) for name in OUTCOMES} - refused == no_setting
    assert not no_setting & settings().keys()
    assert seeded_config(MODEL)["vocab_size"] == VOCAB


MAMBA2 = {
    "architectures": ["Mamba2ForCausalLM"],
    "model_type": "mamba2",
    "torch_dtype": "bfloat16",
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "state_size": 64,
    "num_heads": 8,
    "head_dim": 32,
    "n_groups": 1,
    "expand": 2,
    "conv_kernel": 4,
    "vocab_size": 512,
    "chunk_size": 64,
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "use_bias": False,
    "use_conv_bias": True,
}


def test_mamba2_under_the_flag_is_refused_by_vllm_itself(stack, tmp_path):
    """The gate refuses it in any case; here the real engine is built, and raises."""
    (tmp_path / "config.json").write_text(json.dumps(MAMBA2))
    done = subprocess.run(
        stack.command("samebits.engine.vllm.unsupported", str(tmp_path), "--flag"),
        env=stack.environment(1),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert (found["vllm"], found["device"], found["model_type"]) == ("0.32.0", "cpu", "mamba2")
    assert (found["stage"], found["error"]) == ("construction", "RuntimeError")
    assert found["message"] == "VLLM batch_invariant mode is not supported for MAMBA2_ATTN."
    assert found["place"].startswith("vllm/v1/attention/selector.py:")
