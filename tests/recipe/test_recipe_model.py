from __future__ import annotations

import copy
import datetime as dt
from pathlib import Path

import pytest

from samebits import recipe
from samebits.errors import InputError
from samebits.recipe import Recipe
from samebits.schema import parse


def changed(data, path, value):
    """A copy of ``data`` with the value at a dotted ``path`` replaced, or removed where ``value`` is ``...``."""
    data = copy.deepcopy(data)
    *parents, last = path.split(".")
    inner = data
    for name in parents:
        inner = inner[name]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return data


def refusal(data):
    with pytest.raises(InputError) as caught:
        parse(Recipe, data, source="r.toml")
    return str(caught.value)


def test_the_recipe_itself_is_good(small):
    assert parse(Recipe, small, source="r.toml").id == "dense-qwen3-small"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "model.shape",
            ...,
            (
                'r.toml: model.shape: found nothing; accepted: a table: source = "seeded" draws weights in this shape. '
                "Add [model.shape]."
            ),
        ),
        (
            "model.source",
            "smollm2-135m",
            (
                "r.toml: model.shape: found a table; accepted: nothing: source = 'smollm2-135m' brings its own shape. "
                'Remove it, or set source = "seeded".'
            ),
        ),
        (
            "model.source",
            "smollm3",
            "r.toml: model.source: found 'smollm3'; accepted: 'smollm2-135m', 'seeded' or 'dummy'. Correct the value.",
        ),
        (
            "model.shape.intermediate_size",
            390,
            (
                "r.toml: model.shape.intermediate_size: found 390; accepted: a multiple of 16. "
                "Choose a wider or a narrower one."
            ),
        ),
        (
            "model.shape.num_key_value_heads",
            3,
            (
                "r.toml: model.shape.num_key_value_heads: found 3; accepted: a divisor of num_attention_heads = 4. "
                "Correct one of the two."
            ),
        ),
        (
            "workload.samples_per_problem",
            1,
            "r.toml: workload.samples_per_problem: found 1; accepted: greater than or equal to 2. Correct the value.",
        ),
        (
            "engine.max_model_len",
            43,
            (
                "r.toml: engine.max_model_len: found 43; accepted: at least 44: max_response_tokens = 28 and 16 of "
                "prompt. Correct one of the two. Also wrong in this file: engine.num_gpu_blocks."
            ),
        ),
        (
            "engine.max_num_batched_tokens",
            5,
            (
                "r.toml: engine.max_num_batched_tokens: found 5; accepted: at least max_num_seqs = 6, so that all "
                "running sequences can decode. Correct one of the two."
            ),
        ),
        (
            "engine.num_gpu_blocks",
            11,
            (
                "r.toml: engine.num_gpu_blocks: found 11; accepted: at least 12: one sequence of max_model_len = 192 "
                "needs as many pages of block_size = 16. Correct one of the two."
            ),
        ),
        (
            "engine.num_gpu_blocks",
            72,
            (
                "r.toml: engine.num_gpu_blocks: found 72; accepted: fewer than 72: with so many pages 6 sequences "
                "always fit, and min_preemptions = 1 can never be met. Correct one of the two."
            ),
        ),
        (
            "engine.threads",
            0,
            "r.toml: engine.threads: found 0; accepted: greater than or equal to 1. Correct the value.",
        ),
        (
            "engine.tensor_paralel_size",
            2,
            (
                "r.toml: engine.tensor_paralel_size: found an unknown key; accepted: async_rollout, block_size, "
                "data_parallel_size, decode_context_parallel_size, enable_chunked_prefill, enable_expert_parallel, "
                "enable_lora, enable_prefix_caching, kind, kv_cache_dtype, kv_connector, logprobs_mode, max_model_len, "
                "max_num_batched_tokens, max_num_seqs, num_gpu_blocks, pipeline_parallel_size, quantization, "
                "speculative_config, tensor_parallel_size, threads. Did you mean 'tensor_parallel_size'?"
            ),
        ),
        (
            "actor.train_pack",
            4,
            (
                "r.toml: actor.train_pack: found 4; accepted: anything but recompute_pack = 4: the two forwards must "
                "be packed differently (rule 3). Correct one of the two."
            ),
        ),
        (
            "actor.force_on_policy_ratio",
            True,
            (
                "r.toml: actor.force_on_policy_ratio: found true; accepted: false; true only inside an exclusion, "
                "which shows that it is refused. Remove it: with it the recompute would never run (rule 3)."
            ),
        ),
        (
            "certification.refits",
            9,
            "r.toml: certification.refits: found 9; accepted: greater than or equal to 10. Correct the value.",
        ),
        (
            "certification.min_tokens",
            2465,
            (
                "r.toml: certification.min_tokens: found 2465; accepted: at most 2464: 8 trajectories × 11 rounds "
                "× 28 tokens. Correct one of the two."
            ),
        ),
        (
            "certification.probe_sequences",
            9,
            (
                "r.toml: certification.probe_sequences: found 9; accepted: at most 8, the trajectories of one round. "
                "Correct one of the two."
            ),
        ),
        (
            "rows",
            [],
            (
                "r.toml: rows: found []; accepted: List should have at least 1 item after validation, not 0. "
                "Correct the value."
            ),
        ),
        ("schema_version", 2, "r.toml: schema_version: found 2; accepted: 1. Correct the value."),
        (
            "exclusions",
            [{"kind": "engine", "set": {"enable_prefix_cashing": True}, "why": "x"}],
            (
                "r.toml: exclusions[0].set.enable_prefix_cashing: found an unknown field; accepted: async_rollout, "
                "block_size, data_parallel_size, decode_context_parallel_size, enable_chunked_prefill, "
                "enable_expert_parallel, enable_lora, enable_prefix_caching, kind, kv_cache_dtype, kv_connector, "
                "logprobs_mode, max_model_len, max_num_batched_tokens, max_num_seqs, num_gpu_blocks, "
                "pipeline_parallel_size, quantization, speculative_config, tensor_parallel_size, threads. "
                "Did you mean 'enable_prefix_caching'?"
            ),
        ),
        (
            "exclusions",
            [{"kind": "request", "set": {"temperature": 1.0}, "why": "x"}],
            (
                "r.toml: exclusions[0].set.temperature: found 1.0; accepted: a value that differs from the certified "
                "one; this one excludes nothing. Change the value or remove the exclusion."
            ),
        ),
        (
            "exclusions",
            [{"kind": "request", "set": {"n": 2}, "why": "x"}, {"kind": "request", "set": {"n": 2}, "why": "y"}],
            (
                "r.toml: exclusions[1]: found request {'n': 2}, a second time; accepted: each exclusion once. "
                "Remove one of the two."
            ),
        ),
        (
            "exclusions",
            [{"kind": "request", "set": {"bad_words": [dt.date(2026, 1, 1)]}, "why": "x"}],
            (
                "r.toml: exclusions[0].set.bad_words: found [datetime.date(2026, 1, 1)]; accepted: text, a finite "
                "number, true, false, a list or a table: it travels as JSON. Correct the value."
            ),
        ),
        (
            "exclusions",
            [],
            (
                "r.toml: exclusions: found []; accepted: List should have at least 1 item after validation, not 0. "
                "Correct the value."
            ),
        ),
    ],
)
def test_one_wrong_value_is_named(small, path, value, message):
    assert refusal(changed(small, path, value)) == message


def test_packs_that_both_hold_all_sequences_are_the_same_packing(small):
    data = changed(changed(small, "actor.train_pack", 8), "actor.recompute_pack", 9)
    assert refusal(data) == (
        "r.toml: actor.train_pack: found 8, and recompute_pack = 9; accepted: one of the two below 8, the trajectories "
        "of one round; otherwise both pack them all into one forward (rule 3). Correct one of the two."
    )
    assert parse(Recipe, changed(data, "actor.train_pack", 7), source="r.toml").actor.train_pack == 7


@pytest.mark.parametrize(
    ("field", "value"), [("tensor_parallel_size", 2), ("enable_prefix_caching", True), ("kv_cache_dtype", "fp8")]
)
def test_what_only_the_gate_refuses_is_well_formed(small, field, value):
    recipe = parse(Recipe, changed(small, f"engine.{field}", value), source="r.toml")
    assert getattr(recipe.engine, field) == value


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            'quantization = "fp8"\n\n',
            "\n",
            (
                "r.toml: engine.quantization: found nothing; "
                "accepted: 'fp8', as [model.ds4] has it. Correct one of the two."
            ),
        ),
        (
            'quantization = "fp8"\n\n',
            'quantization = "fp8"\nkv_cache_dtype = "fp8_ds_mla"\n\n',
            (
                "r.toml: engine.kv_cache_dtype: found 'fp8_ds_mla'; accepted: 'auto', as [model.ds4] has it. "
                "Correct one of the two."
            ),
        ),
    ],
)
def test_the_engine_states_the_formats_of_a_ds4_model(before, after, message):
    text = (Path(__file__).resolve().parents[2] / "recipes" / "ds4-small.toml").read_text()
    assert text.count(before) == 1
    with pytest.raises(InputError) as caught:
        recipe.parse(text.replace(before, after).encode(), source="r.toml")
    assert str(caught.value) == message
