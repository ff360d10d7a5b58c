"""A whole certification with the actor inside Megatron, as its user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from certify.cli import TINY, Ended, samebits

pytestmark = pytest.mark.megatron

REFUSED = """
[[exclusions]]
kind = "actor"
set = { tensor_model_parallel_size = 2 }
why = "another order of sums"

[[exclusions]]
kind = "actor"
set = { batch_invariant_mode = true }
why = "other kernels than the op set's"
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Ended, Path]:
    """The tiny recipe with Megatron's actor: how the command ended, and its run folder."""
    folder = tmp_path_factory.mktemp("megatron")
    recipe = TINY.read_text().replace('rows = ["cpu"]', 'rows = ["cpu-megatron-0.16"]')
    recipe = recipe.replace("[actor]\n", '[actor]\nkind = "megatron"\n') + REFUSED
    (folder / "tiny.toml").write_text(recipe)
    arguments = ("--actor", "megatron", "--runs", folder, "--run-id", "whole", "--json")
    return samebits("certify", folder / "tiny.toml", *arguments, home=folder), folder / "whole"


def test_passes_over_ten_refits(whole):
    ended, _ = whole
    assert ended.code == 0, ended.stderr
    findings = ended.json["runs"][0]["findings"]
    assert findings["verdict"] == "passed"
    assert findings["exactness"]["mismatches"] == 0
    assert findings["refits"]["refits"] == 10
    control = [oracle["mismatches"] for oracle in findings["oracles"] if oracle["arm"] == "control"]
    assert max(control) > 0


def test_the_evidence_says_which_actor_ran(whole):
    evidence = whole[1] / "certificate.evidence"
    assert 'kind = "megatron"' in (evidence / "recipe.toml").read_text()
    facts = {
        row["name"]: json.loads(row["value"])
        for row in pq.read_table(evidence / "facts.parquet").to_pylist()
        if (row["arm"], row["worker"]) == ("aligned", "actor")
    }
    assert facts["settings.kind"] == "megatron"
    assert facts["libraries.megatron-core"] == "0.16.1"


def test_the_refusal_is_megatrons_own(whole):
    refusals = pq.read_table(whole[1] / "certificate.evidence" / "refusals.parquet").to_pylist()
    (said,) = [row["message"] for row in refusals if row["set"] == '{"batch_invariant_mode": true}']
    assert said.startswith("actor.batch_invariant_mode: found True; Megatron ")


def test_every_tensor_was_sent_under_the_engines_name(whole):
    refits = pq.read_table(whole[1] / "certificate.evidence" / "refits.parquet").to_pylist()
    tensors = {row["tensor"] for row in refits}
    assert "model.layers.1.self_attn.k_proj.weight" in tensors
    assert not [name for name in tensors if name.startswith(("decoder.", "embedding.", "output_layer."))]
    masters = [row["master"] for row in refits if row["tensor"] == "model.layers.1.self_attn.k_proj.weight"]
    assert len(set(masters)) > 10, "the part of a fused master has a digest of its own, new at every refit"


def test_it_verifies(whole):
    ended, run = whole
    key = next((run.parent / "config").rglob("*.pub.pem"))
    assert samebits("verify", run / "certificate.sigstore.json", "--key", key, home=run.parent).code == 0
    assert ended.json["runs"][0]["recipe"] == "tiny"
