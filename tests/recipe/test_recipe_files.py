from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from samebits import recipe
from samebits.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
KNOWN = [
    "dense-qwen3-0.6b",
    "dense-qwen3-small",
    "dense-qwen3-small-megatron",
    "dense-qwen3-small-vllm-cpu",
    "dense-smollm2",
    "dense-smollm2-megatron",
    "ds4-small",
    "ds4-small-fp8kv",
    "refused-batch-invariant-cpu",
    "refused-ds4-h200",
    "refused-mamba2-cpu",
    "refused-mamba2-h200",
]


@pytest.mark.parametrize("name", ["dense-smollm2", "dense-qwen3-small"])
def test_committed_recipes_load_with_the_bytes_they_were_read_from(name):
    loaded, content = recipe.load(name)
    assert loaded.id == name
    assert content == (ROOT / "recipes" / f"{name}.toml").read_bytes()
    assert recipe.digest(content) == hashlib.sha256(content).hexdigest()


def test_every_committed_recipe_is_known():
    assert recipe.known() == KNOWN


def test_unknown_id():
    with pytest.raises(InputError) as caught:
        recipe.load("dense-smolm2")
    assert str(caught.value) == (
        f"recipe: found 'dense-smolm2'; accepted: {', '.join(KNOWN)}. Did you mean 'dense-smollm2'?"
    )


def test_a_copy_under_another_name_loads_by_its_path(tmp_path):
    content = (ROOT / "recipes" / "dense-smollm2.toml").read_bytes()
    copy = tmp_path / "recipe.toml"
    copy.write_bytes(content)
    assert recipe.load(copy) == recipe.load("dense-smollm2")
    assert recipe.load(str(copy))[0].id == "dense-smollm2"


def test_an_id_must_be_the_files_own(tmp_path, monkeypatch):
    (tmp_path / "recipes").mkdir()
    content = (ROOT / "recipes" / "dense-smollm2.toml").read_bytes()
    (tmp_path / "recipes" / "mine.toml").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        recipe.load("mine")
    assert str(caught.value) == (
        "mine.toml: id: found 'dense-smollm2'; accepted: 'mine'. Name the file after the recipe's id."
    )


@pytest.mark.parametrize("name", ["dense-smollm2", "dense-qwen3-small"])
def test_exclusions_reach_every_gated_feature(name):
    """Rule 10: each feature that the engine can be asked for and that is not certified is shown to be refused."""
    loaded, _ = recipe.load(name)
    excluded = {(exclusion.kind, field) for exclusion in loaded.exclusions for field in exclusion.set}
    sizes = {
        "kind", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "num_gpu_blocks", "threads",
        "enable_chunked_prefill",
    }  # fmt: skip
    features = set(loaded.engine.model_dump()) - sizes
    assert {field for kind, field in excluded if kind == "engine"} == features
    assert {field for kind, field in excluded if kind == "actor"} == {"force_on_policy_ratio"}
    assert {field for kind, field in excluded if kind == "request"} == set(recipe.CONFORMING)
