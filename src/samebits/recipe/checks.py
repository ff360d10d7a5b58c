"""What the fields of a recipe demand of each other, beyond what each may be alone.

A certification that cannot show what it must (no preemption possible, both packings the same) would end *vacuous* after
minutes; these checks say so at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from samebits.recipe.refused import refusal_conflicts
from samebits.recipe.sampling import CONFORMING
from samebits.schema import Conflict, nearest

if TYPE_CHECKING:
    from samebits.recipe.model import Exclusion, Model, Recipe

ALIGNED: Final = {"batch_invariant": True, "attention_split_kv": False}
"""Aligned positions of the switches that are engine settings; the control position is the other one."""

PROMPT_ROOM: Final = 16
"""Tokens that a model length must leave for the prompt: fewer hold no problem at all."""

_VECTOR: Final = 16
"""silu and the matrix tiles treat a last, partial vector in another order, so seeded widths are multiples of it."""


def conflicts(recipe: Recipe) -> Iterator[Conflict]:
    """Everything wrong with ``recipe``, in the order of its file."""
    if recipe.refusal is not None or recipe.model.family == "foreign" or recipe.model.config is not None:
        yield from refusal_conflicts(recipe)
        return
    yield from _model(recipe)
    yield from _lengths(recipe)
    yield from _cache(recipe)
    yield from _packings(recipe)
    yield from _switch(recipe)
    yield from _baseline(recipe)
    yield from _past_the_gate(recipe)
    if recipe.actor.force_on_policy_ratio:
        yield Conflict(
            "actor.force_on_policy_ratio",
            found="true",
            accepted="false; true only inside an exclusion, which shows that it is refused",
            next_step="Remove it: with it the recompute would never run (rule 3).",
        )
    seen: list[tuple[str, dict[str, Any]]] = []
    for number, exclusion in enumerate(recipe.exclusions):
        yield from _exclusion(recipe, number, exclusion)
        if (exclusion.kind, exclusion.set) in seen:
            yield Conflict(
                f"exclusions[{number}]",
                found=f"{exclusion.kind} {exclusion.set}, a second time",
                accepted="each exclusion once",
                next_step="Remove one of the two.",
            )
        seen.append((exclusion.kind, exclusion.set))


def _model(recipe: Recipe) -> Iterator[Conflict]:
    model = recipe.model
    if model.family == "ds4":
        yield from _ds4(model)
        yield from _formats(recipe)
        return
    if model.ds4 is not None:
        yield Conflict("model.ds4", found="a table", accepted='nothing: family = "dense"', next_step="Remove it.")
    if model.source == "dummy":
        yield Conflict("model.source", found="'dummy'", accepted='"seeded" or "smollm2-135m": family = "dense"')
        return
    if model.source != "seeded":
        if model.shape is not None:
            yield Conflict(
                "model.shape",
                found="a table",
                accepted=f"nothing: source = {model.source!r} brings its own shape",
                next_step='Remove it, or set source = "seeded".',
            )
        return
    shape = model.shape
    if shape is None:
        yield Conflict(
            "model.shape",
            found="nothing",
            accepted='a table: source = "seeded" draws weights in this shape',
            next_step="Add [model.shape].",
        )
        return
    for name in ("vocab_size", "hidden_size", "intermediate_size", "head_dim"):
        width = getattr(shape, name)
        if width % _VECTOR:
            yield Conflict(
                f"model.shape.{name}",
                found=width,
                accepted=f"a multiple of {_VECTOR}",
                next_step="Choose a wider or a narrower one.",
            )
    if shape.num_attention_heads % shape.num_key_value_heads:
        yield Conflict(
            "model.shape.num_key_value_heads",
            found=shape.num_key_value_heads,
            accepted=f"a divisor of num_attention_heads = {shape.num_attention_heads}",
        )


def _ds4(model: Model) -> Iterator[Conflict]:
    if model.source != "seeded":
        yield Conflict("model.source", found=repr(model.source), accepted='"seeded": this family has no other weights')
    if model.shape is not None:
        yield Conflict("model.shape", found="a table", accepted='nothing: family = "ds4"', next_step="Remove it.")
    if model.dtype != "bfloat16" and model.ds4 is not None and model.ds4.fp8_block:
        yield Conflict("model.dtype", found=model.dtype, accepted='"bfloat16": FP8 products end in it')
    if model.ds4 is None:
        yield Conflict(
            "model.ds4",
            found="nothing",
            accepted='a table: source = "seeded" draws weights in this shape',
            next_step="Add [model.ds4].",
        )


def _formats(recipe: Recipe) -> Iterator[Conflict]:
    """The engine states what the model is: a reader of the recipe's engine table must not miss that it is FP8."""
    shape = recipe.model.ds4
    if shape is None:
        return
    wanted = {"quantization": "fp8" if shape.fp8_block else None, "kv_cache_dtype": shape.kv_cache_format}
    for name, value in wanted.items():
        found = getattr(recipe.engine, name)
        if found != value:
            yield Conflict(
                f"engine.{name}",
                found="nothing" if found is None else repr(found),
                accepted="nothing" if value is None else f"{value!r}, as [model.ds4] has it",
            )


def _lengths(recipe: Recipe) -> Iterator[Conflict]:
    engine, response = recipe.engine, recipe.workload.max_response_tokens
    if engine.max_model_len < response + PROMPT_ROOM:
        yield Conflict(
            "engine.max_model_len",
            found=engine.max_model_len,
            accepted=f"at least {response + PROMPT_ROOM}: max_response_tokens = {response} and {PROMPT_ROOM} of prompt",
        )
    if engine.max_num_batched_tokens < engine.max_num_seqs:
        yield Conflict(
            "engine.max_num_batched_tokens",
            found=engine.max_num_batched_tokens,
            accepted=f"at least max_num_seqs = {engine.max_num_seqs}, so that all running sequences can decode",
        )
    fewest = recipe.workload.min_response_tokens
    if fewest is not None and fewest > response:
        yield Conflict(
            "workload.min_response_tokens", found=fewest, accepted=f"at most max_response_tokens = {response}"
        )
    certification = recipe.certification
    most = _trajectories(recipe) * (certification.refits + 1) * response
    if certification.min_tokens > most:
        yield Conflict(
            "certification.min_tokens",
            found=certification.min_tokens,
            accepted=f"at most {most}: {_trajectories(recipe)} trajectories × {certification.refits + 1} rounds "
            f"× {response} tokens",
        )
    if certification.probe_sequences > _trajectories(recipe):
        yield Conflict(
            "certification.probe_sequences",
            found=certification.probe_sequences,
            accepted=f"at most {_trajectories(recipe)}, the trajectories of one round",
        )


def _cache(recipe: Recipe) -> Iterator[Conflict]:
    engine = recipe.engine
    if recipe.model.family == "ds4":  # its caches fill their pages each in its own way: the engine counts them
        return
    pages = -(-engine.max_model_len // engine.block_size)
    if engine.num_gpu_blocks < pages:
        yield Conflict(
            "engine.num_gpu_blocks",
            found=engine.num_gpu_blocks,
            accepted=f"at least {pages}: one sequence of max_model_len = {engine.max_model_len} needs as many pages "
            f"of block_size = {engine.block_size}",
        )
    together = min(engine.max_num_seqs, _trajectories(recipe))
    if engine.num_gpu_blocks >= together * pages:
        yield Conflict(
            "engine.num_gpu_blocks",
            found=engine.num_gpu_blocks,
            accepted=f"fewer than {together * pages}: with so many pages {together} sequences always fit, "
            f"and min_preemptions = {recipe.certification.min_preemptions} can never be met",
        )


def _packings(recipe: Recipe) -> Iterator[Conflict]:
    actor, trajectories = recipe.actor, _trajectories(recipe)
    if actor.train_pack == actor.recompute_pack:
        yield Conflict(
            "actor.train_pack",
            found=actor.train_pack,
            accepted=f"anything but recompute_pack = {actor.recompute_pack}: the two forwards must be packed "
            "differently (rule 3)",
        )
    elif min(actor.train_pack, actor.recompute_pack) >= trajectories:
        yield Conflict(
            "actor.train_pack",
            found=f"{actor.train_pack}, and recompute_pack = {actor.recompute_pack}",
            accepted=f"one of the two below {trajectories}, the trajectories of one round; otherwise both pack them "
            "all into one forward (rule 3)",
        )


def _switch(recipe: Recipe) -> Iterator[Conflict]:
    """That the engine knows the switch, and that the recipe has it in its aligned position."""
    name, engine = recipe.certification.switch, recipe.engine
    if (engine.kind == "native") != (name == "op_set"):
        accepted = '"op_set"' if engine.kind == "native" else '"batch_invariant" or "attention_split_kv"'
        yield Conflict("certification.switch", found=repr(name), accepted=f"{accepted}: engine.kind = {engine.kind!r}")
    elif name in ALIGNED and getattr(engine, name) != ALIGNED[name]:
        yield Conflict(
            f"engine.{name}",
            found=getattr(engine, name),
            accepted=f"{ALIGNED[name]}: it is the aligned switch, and the control arm turns it",
        )
    wanted = recipe.certification.min_chunked_prefills
    if engine.enable_chunked_prefill == (wanted == 0):
        yield Conflict(
            "certification.min_chunked_prefills",
            found=wanted,
            accepted="at least 1, since chunked prefill is on"
            if engine.enable_chunked_prefill
            else "0, since chunked prefill is off",
        )
    most = min(engine.max_num_seqs, _trajectories(recipe))
    if recipe.certification.min_running > most:
        yield Conflict(
            "certification.min_running",
            found=recipe.certification.min_running,
            accepted=f"at most {most}: max_num_seqs = {engine.max_num_seqs}, {_trajectories(recipe)} trajectories",
        )


def _past_the_gate(recipe: Recipe) -> Iterator[Conflict]:
    own = recipe.engine.model_dump()
    for name, value in recipe.past_the_gate.items():
        if name not in own or own[name] != value:
            yield Conflict(
                f"past_the_gate.{name}",
                found=repr(value),
                accepted=repr(own[name]) + ", as the engine table has it" if name in own else ", ".join(sorted(own)),
            )


def _baseline(recipe: Recipe) -> Iterator[Conflict]:
    if recipe.baseline is None:
        return
    own = recipe.engine.model_dump()
    for name, value in recipe.baseline.engine.items():
        if name not in own:
            yield _unknown(f"baseline.engine.{name}", name, own)
        elif name == recipe.certification.switch:
            yield Conflict(
                f"baseline.engine.{name}",
                found=repr(value),
                accepted="nothing: the switch is in its control position on every unaligned arm",
                next_step="Remove it.",
            )


def _exclusion(recipe: Recipe, number: int, exclusion: Exclusion) -> Iterator[Conflict]:
    own = _own_settings(recipe, exclusion.kind)
    for name, value in exclusion.set.items():
        field = f"exclusions[{number}].set.{name}"
        if name not in own:
            yield _unknown(field, name, own)
        elif not _is_json(value):
            yield Conflict(
                field,
                found=repr(value),
                accepted="text, a finite number, true, false, a list or a table: it travels as JSON",
                next_step="Correct the value.",
            )
        elif exclusion.kind == "request" and type(value) is type(own[name]) and value == own[name]:
            # Not asked of engine and actor: whether a recipe's own setting is certified is the gate's to say.
            yield Conflict(
                field,
                found=repr(value),
                accepted="a value that differs from the certified one; this one excludes nothing",
                next_step="Change the value or remove the exclusion.",
            )


def _unknown(field: str, name: str, own: Mapping[str, Any]) -> Conflict:
    near = nearest(name, own)
    return Conflict(
        field,
        found="an unknown field",
        accepted=", ".join(sorted(own)),
        next_step=f"Did you mean {near!r}?" if near else "Remove it.",
    )


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _own_settings(recipe: Recipe, kind: str) -> Mapping[str, Any]:
    if kind == "engine":
        return recipe.engine.model_dump()
    return recipe.actor.model_dump() if kind == "actor" else CONFORMING


def _trajectories(recipe: Recipe) -> int:
    return recipe.workload.problems_per_round * recipe.workload.samples_per_problem
