"""Model folders: what is written comes back bit for bit, and anything else is an error."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from samebits.errors import InputError
from samebits.models import Dense, open_folder, save_folder

CONFIG = {
    "dtype": "bfloat16",
    "hidden_size": 16,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
    "model_type": "llama",
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000.0,
    "tie_word_embeddings": True,
    "vocab_size": 40,
}
NORM = "model.norm.weight"
TABLE = "model.embed_tokens.weight"
MORE = "1 more tensor(s) with this fault."
AGAIN = "Prepare the model folder again, or correct its config.json."


def draw(dtype=torch.bfloat16):
    return {name: torch.randn(shape).to(dtype) for name, shape in Dense(CONFIG).parameter_shapes().items()}


@pytest.fixture
def folder(tmp_path):
    save_folder(tmp_path / "model", CONFIG, draw())
    return tmp_path / "model"


def test_round_trip(tmp_path):
    weights = draw()
    weights[NORM][0] = -0.0
    save_folder(tmp_path, CONFIG, weights)
    decoder, read = open_folder(tmp_path)
    assert decoder.config == CONFIG
    assert list(read) == sorted(weights)
    for name, weight in weights.items():
        assert read[name].dtype == torch.bfloat16
        assert torch.equal(read[name].view(torch.int16), weight.view(torch.int16)), name


def test_weights_do_not_change_with_the_file(folder):
    _, weights = open_folder(folder)
    before = {name: weight.clone() for name, weight in weights.items()}
    path = folder / "model.safetensors"
    with path.open("r+b") as stream:
        stream.seek(-16, 2)
        stream.write(b"\xff" * 16)
    assert all(torch.equal(weights[name], before[name]) for name in before)


def test_a_folder_that_transformers_wrote(tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415 - slow, and only here

    sizes = {key: value for key, value in CONFIG.items() if key not in {"dtype", "model_type", "rope_theta"}}
    model = LlamaForCausalLM(LlamaConfig(**sizes)).bfloat16()
    model.save_pretrained(tmp_path)
    _, weights = open_folder(tmp_path)
    assert {name: tuple(weight.shape) for name, weight in weights.items()} == Dense(CONFIG).parameter_shapes()
    assert torch.equal(weights[NORM], model.model.norm.weight)


def spoil(folder, **changes):
    """Rewrite the folder's weights: a name with a tensor is added or replaced, a name with ``None`` is left out."""
    path = folder / "model.safetensors"
    weights = {name.replace("__", "."): weight for name, weight in {**load_file(path), **changes}.items()}
    save_file({name: weight for name, weight in weights.items() if weight is not None}, path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {NORM: None, TABLE: None},
            f"model.safetensors: {TABLE}: found nothing; accepted: a tensor of this name. {AGAIN} {MORE}",
        ),
        (
            {"lm_head.weight": torch.zeros(40, 16, dtype=torch.bfloat16)},
            "model.safetensors: lm_head.weight: found a tensor; accepted: no tensor of this name in this model. "
            + AGAIN,
        ),
        (
            {NORM: torch.zeros(17, dtype=torch.bfloat16)},
            f"model.safetensors: {NORM}: found shape [17]; accepted: shape [16]. {AGAIN}",
        ),
        (
            {NORM: torch.zeros(16)},
            f"model.safetensors: {NORM}: found float32; accepted: bfloat16. {AGAIN}",
        ),
    ],
    ids=["missing", "unexpected", "shape", "dtype"],
)
def test_refuses_other_tensors(folder, changes, message):
    spoil(folder, **changes)
    with pytest.raises(InputError) as refused:
        open_folder(folder)
    assert str(refused.value) == message


def test_refuses_another_dtype_than_asked_for(folder):
    with pytest.raises(InputError) as refused:
        open_folder(folder, torch.float32)
    assert str(refused.value) == (
        "model.safetensors: model.embed_tokens.weight: found bfloat16; accepted: float32. "
        f"{AGAIN} {len(Dense(CONFIG).parameter_shapes()) - 1} more tensor(s) with this fault."
    )


def test_refuses_to_write_what_could_not_be_read(tmp_path):
    with pytest.raises(InputError) as refused:
        save_folder(tmp_path / "model", CONFIG, {**draw(), NORM: torch.zeros(16)})
    assert str(refused.value) == f"weights: {NORM}: found float32; accepted: bfloat16. {AGAIN}"
    assert not (tmp_path / "model").exists()


def test_refuses_a_truncated_file(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError) as refused:
        open_folder(folder)
    assert refused.value.field == str(path)
    assert refused.value.accepted == "a whole safetensors file"


@pytest.mark.parametrize(
    ("content", "found", "accepted"),
    [
        (None, "No such file or directory", "a model folder's config.json"),
        (
            "{",
            "not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))",
            "a JSON object",
        ),
        ("[]", "a JSON list", "a JSON object"),
    ],
)
def test_refuses_an_unreadable_config(folder, content, found, accepted):
    path = folder / "config.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError) as refused:
        open_folder(folder)
    assert str(refused.value) == f"{path}: found {found}; accepted: {accepted}. Prepare the model folder again."


def test_refuses_missing_weights(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="found no such file; accepted: a safetensors file"):
        open_folder(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model_type": "mamba2"},
            (
                "config.json: model_type: found mamba2; accepted: deepseek_v4, llama, qwen3. "
                "Choose a model of a supported family."
            ),
        ),
        (
            {"dtype": "float16"},
            "config.json: dtype: found float16; accepted: bfloat16 or float32. Prepare the model folder again.",
        ),
    ],
)
def test_refuses_another_config(folder, change, message):
    (folder / "config.json").write_text(json.dumps({**CONFIG, **change}))
    with pytest.raises(InputError) as refused:
        open_folder(folder)
    assert str(refused.value) == message
