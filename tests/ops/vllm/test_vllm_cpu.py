"""Op set ``vllm-cpu`` beside the real engine of vLLM's CPU build."""

from __future__ import annotations

import json

import pytest

from samebits.models import save_folder, seeded_config, seeded_weights
from samebits.recipe.model import DenseShape, Model

SHAPE = {
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "initializer_range": 0.1,
    "lm_head_std": 0.2,
}
ENGINE = {
    "enforce_eager": True,
    "enable_chunked_prefill": False,
    "max_num_batched_tokens": 16384,
    "max_model_len": 256,
    "block_size": 32,
    "compilation_config": {"mode": 0, "custom_ops": ["none"]},
}


def make(folder, dtype, **shape):
    model = Model(family="dense", source="seeded", seed=1, dtype=dtype, shape=DenseShape(**{**SHAPE, **shape}))
    save_folder(folder, seeded_config(model), seeded_weights(model))
    return folder


def three_ways(vllm, model, export, *, threads=1, split=False, seed=3):
    """A rollout by the engine, and both actor sides of it."""
    export.mkdir()
    environment = {"OMP_NUM_THREADS": str(threads), "VLLM_CPU_ATTN_SPLIT_KV": str(int(split))}
    asked = {"model": str(model), "engine": ENGINE, "sequences": 12, "prompt_tokens": 60, "response_tokens": 30}
    rows = vllm.ask("rollout.py", {**asked, "seed": seed}, **environment)
    actor = {
        "model": str(model),
        "rows": str(rows),
        "export": str(export),
        "op_set": "vllm-cpu",
        "switches": {"attention_split_kv": split},
        "settings": {"threads": threads},
        "max_model_len": 256,
    }
    return json.loads(vllm.ask("train.py", actor, **environment).read_text())


@pytest.mark.parametrize(
    ("dtype", "qk_norm", "tied"), [("bfloat16", True, False), ("float32", False, True)], ids=["qwen3", "llama"]
)
def test_rollout_recompute_and_training_forward_have_the_same_bits(vllm, tmp_path, dtype, qk_norm, tied):
    """On the initial weights, and again on those that a step made of them."""
    model = make(tmp_path / "0", dtype, qk_norm=qk_norm, tie_word_embeddings=tied)
    for version in range(2):
        found = three_ways(vllm, model, tmp_path / str(version + 1), seed=version)
        assert found["tokens"] > 100
        assert found["distinct"] > 90
        assert found["grad_norm_is_positive"]
        assert (found["rollout_recompute"], found["recompute_train"]) == (0, 0)
        model = tmp_path / str(version + 1)


def test_two_threads_change_no_bit(vllm, tmp_path):
    found = three_ways(vllm, make(tmp_path / "0", "bfloat16", qk_norm=True), tmp_path / "1", threads=2)
    assert (found["rollout_recompute"], found["recompute_train"]) == (0, 0)


def test_values_and_gradients_are_near_float64(vllm, tmp_path):
    out = tmp_path / "found.json"
    vllm.run("gradients.py", str(out), "vllm-cpu", OMP_NUM_THREADS="1")
    found = json.loads(out.read_text())
    assert len(found) == 20
    assert {op: fault for op, fault in found.items() if fault} == {}
