from __future__ import annotations

import pytest

from samebits import recipe
from samebits.errors import InputError


@pytest.mark.parametrize(
    ("name", "pages"), [("dense-qwen3-small", {}), ("dense-smollm2", {"num_gpu_blocks": 26})], ids=["qwen3", "smollm2"]
)
def test_a_variant_is_the_recipe_with_another_actor(name, pages):
    """Whoever changes one of the two changes the other."""
    base, variant = recipe.load(name)[0], recipe.load(f"{name}-megatron")[0]
    assert variant.actor.kind == "megatron"
    assert variant.rows == ["cpu-megatron-0.16"]
    assert variant.title == f"{base.title}, trained inside Megatron-core"
    own, said = variant.model_dump(), base.model_dump()
    said["engine"] |= pages
    assert {field for field in own if own[field] != said[field]} == {"id", "title", "rows", "actor", "exclusions"}
    assert {field: own["actor"][field] for field in said["actor"] if field != "kind"} == {
        field: value for field, value in said["actor"].items() if field != "kind"
    }
    assert [exclusion for exclusion in variant.exclusions if exclusion not in base.exclusions] == [
        exclusion
        for exclusion in variant.exclusions
        if set(exclusion.set) & (own["actor"].keys() - said["actor"].keys())
    ]
    assert [exclusion for exclusion in base.exclusions if exclusion not in variant.exclusions] == []


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("dense-qwen3-small", "megatron", "dense-qwen3-small-megatron"),
        ("dense-qwen3-small", "native", "dense-qwen3-small"),
        ("dense-qwen3-small-megatron", "megatron", "dense-qwen3-small-megatron"),
        ("dense-qwen3-small-megatron", "native", "dense-qwen3-small"),
    ],
)
def test_the_variant_of_a_recipe(name, kind, found):
    assert recipe.with_actor(name, kind) == found


def test_a_recipe_without_one():
    with pytest.raises(InputError) as caught:
        recipe.with_actor("ds4-small", "megatron")
    assert str(caught.value) == (
        "--actor: found 'megatron' for ds4-small, whose actor is 'native'; accepted: dense-qwen3-small-megatron, "
        "dense-smollm2-megatron. Name one of these recipes, or leave --actor out: a recipe states its own actor."
    )


def test_an_unknown_kind():
    with pytest.raises(InputError) as caught:
        recipe.with_actor("dense-smollm2", "megatorn")
    assert str(caught.value) == ("--actor: found 'megatorn'; accepted: native, megatron. Use one of these kinds.")
