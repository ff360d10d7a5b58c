"""Recipes of refusals are closed: nothing stands beside the refusal that would not be run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samebits import recipe
from samebits.errors import InputError

TEXT = (Path(__file__).parents[2] / "recipes" / "refused-mamba2-cpu.toml").read_text()


def fault(text: str) -> str:
    with pytest.raises(InputError) as caught:
        recipe.parse(text.encode(), source="r.toml")
    return f"{caught.value.field}: found {caught.value.found}; accepted: {caught.value.accepted}"


def test_the_committed_one_reads():
    found = recipe.parse(TEXT.encode(), source="r.toml")
    assert found.refusal is not None
    assert (found.refusal.batch_invariant, found.refusal.arguments) == (True, {})
    assert json.loads(recipe.config_bytes(found.model))["architectures"] == ["Mamba2ForCausalLM"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "[refusal]",
            "[actor]\nlearning_rate = 0.1\nrecompute_pack = 1\ntrain_pack = 2\n[refusal]",
            "r.toml: actor: found a table; accepted: nothing beside [refusal]: it would not be run",
        ),
        (
            'family = "foreign"',
            'family = "dense"',
            "r.toml: model.family: found 'dense'; accepted: 'foreign': [refusal] is there",
        ),
        (
            'source = "dummy"',
            'source = "seeded"',
            "r.toml: model.source: found 'seeded'; accepted: 'dummy': there are no weights",
        ),
        (
            'architectures = ["Mamba2ForCausalLM"]',
            'architectures = ["A", "B"]',
            "r.toml: model.config.architectures: found ['A', 'B']; accepted: a list of one name",
        ),
        (
            'model_type = "mamba2"',
            'auto_map = "x"\nmodel_type = "mamba2"',
            "r.toml: model.config.auto_map: found code of somebody else's; accepted: nothing",
        ),
        (
            "layer_norm_epsilon = 1e-5",
            "layer_norm_epsilon = inf",
            "r.toml: model.config: found a value that JSON does not have; accepted: config.json",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(old, new, told):
    assert old in TEXT
    assert fault(TEXT.replace(old, new, 1)) == told


def test_a_foreign_model_is_never_computed():
    dense = (Path(__file__).parents[2] / "recipes" / "dense-smollm2.toml").read_text()
    changed = dense.replace('family = "dense"', 'family = "foreign"')
    assert fault(changed) == (
        "r.toml: model.family: found 'foreign'; accepted: a model of the kit's own: without [refusal] it is computed"
    )
