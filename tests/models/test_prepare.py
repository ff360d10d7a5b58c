"""The entry that the torch-free parent calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from samebits.errors import InputError
from samebits.hashing import sha256_file
from samebits.models import open_folder
from samebits.models.prepare import main, prepare
from samebits.recipe.model import DenseShape, Model

SHAPE = DenseShape(
    vocab_size=260,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=16,
)
MODEL = Model(family="dense", source="seeded", seed=1, shape=SHAPE)
PARAMETERS = 2 * 260 * 32 + 2 * 32 * 32 + 2 * 16 * 32 + 3 * 32 * 48 + 3 * 32


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_as_the_parent_calls_it(tmp_path):
    request = write(tmp_path / "model.json", MODEL.model_dump_json())
    command = [
        sys.executable,
        "-m",
        "samebits.models.prepare",
        "--recipe-json",
        request,
        "--cache",
        str(tmp_path / "c"),
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "model: drawing seeded weights\n")
    assert finished.stdout.count("\n") == 1
    result = json.loads(finished.stdout)
    folder = Path(result.pop("folder"))
    assert result.pop("seconds") > 0
    assert result == {
        "files": {name: sha256_file(folder / name) for name in ("config.json", "model.safetensors")},
        "parameters": PARAMETERS,
        "family": "dense",
        "vocab_size": 260,
        "layers": 1,
        "max_positions": 32_768,
        "was_cached": False,
    }
    _, weights = open_folder(folder)
    assert sum(weight.numel() for weight in weights.values()) == PARAMETERS


def test_one_folder_per_model(tmp_path):
    first = prepare(MODEL, root=tmp_path)
    assert prepare(MODEL, root=tmp_path).was_cached
    for other in (
        MODEL.model_copy(update={"seed": 2}),
        MODEL.model_copy(update={"dtype": "float32"}),
        MODEL.model_copy(update={"shape": SHAPE.model_copy(update={"lm_head_std": 0.1})}),
    ):
        found = prepare(other, root=tmp_path)
        assert not found.was_cached
        assert found.folder != first.folder
        assert found.files["model.safetensors"] != first.files["model.safetensors"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "{",
            {
                "error": "input",
                "field": "{path}",
                "found": "not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))",
                "accepted": "a recipe's model as JSON",
                "next_step": "Check the file.",
            },
        ),
        (
            '{"family": "dense", "source": "seeded", "sead": 1}',
            {
                "error": "input",
                "field": "model.json: sead",
                "found": "an unknown key",
                "accepted": "config, ds4, dtype, family, seed, shape, source",
                "next_step": "Did you mean 'seed'?",
            },
        ),
        (
            '{"family": "dense", "source": "seeded"}',
            {
                "error": "input",
                "field": "model.shape",
                "found": "nothing",
                "accepted": "the shape of the decoder to draw",
                "next_step": "Add a [model.shape] table, or choose a source with weights of its own.",
            },
        ),
    ],
    ids=["not JSON", "unknown key", "no shape"],
)
def test_errors_are_one_line_of_json_and_an_exit_code(tmp_path, capsys, text, error):
    request = write(tmp_path / "model.json", text)
    assert main(["--recipe-json", request, "--cache", str(tmp_path / "cache")]) == 2
    out, err = capsys.readouterr()
    expected = {**error, "field": error["field"].replace("{path}", request)}
    assert json.loads(out) == expected
    assert err == "{field}: found {found}; accepted: {accepted}. {next_step}\n".format(**expected)


def test_a_missing_file(tmp_path, capsys):
    assert main(["--recipe-json", str(tmp_path / "none.json")]) == 2
    assert json.loads(capsys.readouterr().out)["found"] == "No such file or directory"


def test_a_foreign_model_is_never_made(tmp_path):
    foreign = Model(family="foreign", source="dummy", config={"architectures": ["A"], "model_type": "a"})
    with pytest.raises(InputError) as caught:
        prepare(foreign, root=tmp_path)
    assert (caught.value.field, caught.value.found) == ("model.family", "'foreign'")
