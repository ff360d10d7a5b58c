"""Faults of a DeepSeek-V4 decoder, in the aligned engine alone; the actor computes the same tokens without them."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from samebits.actor import export as export_module
from samebits.engine.native.engine import NativeEngine
from samebits.engine.native.paged_batch import PagedBatch
from samebits.engine.native.weights import EngineWeights
from samebits.models.ds4.step import Completed, Step
from samebits.ops import elementwise, fp8
from samebits.ops.native.sparse import NativeSparse

from . import tools
from .fault import Check, Fault, Patch, Refused, actor, engine
from .tools import around

HEADS, EXPERTS, WINDOW = 4, 16, 8
"""Of recipes/ds4.toml."""


def lower_position_last(*, wide: bool) -> Patch:
    """Of equal scores the higher position first: in the router, or in the indexer, which never has 16 columns."""

    def change(old: Any, ops: Any, scores: Any, count: int) -> Any:
        if (scores.shape[1] != EXPERTS) is not wide:
            return old(ops, scores, count)
        return scores.shape[1] - 1 - old(ops, scores.flip(1), count)

    return lambda: around(NativeSparse, "ranked", change)


def selected_keys_behind_the_window() -> None:
    around(
        NativeSparse,
        "attend",
        lambda old, ops, query, keys, visible, sinks: old(
            ops, query, keys.roll(WINDOW, 1), visible.roll(WINDOW, 1), sinks
        ),
    )


def last_expert_first() -> None:
    around(
        NativeSparse,
        "combine",
        lambda _, __, rows, weights: elementwise.weighted_sum(rows.flip(1), weights.flip(1)),
    )


def state_lost_between_chunks() -> None:
    def change(old: Any, batch: Any, layer: int, name: str, sequences: Any, rows: Any) -> Any:
        if name == "state":
            chunked = torch.tensor([end - start > 1 for start, end in itertools.pairwise(batch.starts)])
            before = rows < torch.tensor(batch.offsets)[sequences, None]
            rows = rows.masked_fill(before & chunked[sequences, None], -1)
        return old(batch, layer, name, sequences, rows)

    around(PagedBatch, "select", change)


def third_window_shifted() -> None:
    def change(old: Any, step: Any, ratio: int) -> Any:
        found = old(step, ratio)
        if ratio != 4:
            return found
        moved = (found.entries == 2)[:, None] & (found.tokens > 0)
        return Completed(found.sequences, found.entries, found.tokens - moved.long())

    around(Step, "completed", change)


def scales_from_before_the_refit() -> None:
    """Each width's largest scales of version 0 serve all later versions."""
    before: dict[int, torch.Tensor] = {}
    version = [0]

    def note(old: Any, live: Any, path: Any, new: int, **named: Any) -> Any:
        version[0] = new
        return old(live, path, new, **named)

    def change(old: Any, ops: Any, x: Any, form: Any) -> Any:
        if version[0] == 0:
            values, scales = old(ops, x, form)
            seen = scales.amax(dim=tuple(range(scales.ndim - 1)))
            before[x.shape[-1]] = torch.maximum(before.get(x.shape[-1], seen), seen)
            return values, scales
        scales = before[x.shape[-1]].expand(*x.shape[:-1], -1)
        blocks = x.float().view(*x.shape[:-1], -1, form.block)
        values = fp8.decode(fp8.round_to(blocks, scales[..., None]), form.compute)
        return (values * scales[..., None].to(form.compute)).view(x.shape), scales

    around(NativeEngine, "refit", note)
    around(NativeSparse, "quantise", change)


def scales_rounded_down() -> None:
    around(fp8, "power_of_two_above", lambda _, x: (x.contiguous().view(torch.int32) >> 23 << 23).view(torch.float32))


def one_sinkhorn_iteration_less() -> None:
    around(NativeSparse, "sinkhorn", lambda old, ops, logits, count, epsilon: old(ops, logits, count - 1, epsilon))


def no_sink() -> None:
    around(
        NativeSparse,
        "attend",
        lambda old, ops, query, keys, visible, sinks: old(
            ops, query, keys, visible, torch.full_like(sinks, -torch.inf)
        ),
    )


def rotated_back_by_a_neighbours_position() -> None:
    def change(old: Any, ops: Any, x: Any, cos: Any, sin: Any) -> Any:
        if x.dtype == torch.bfloat16 and x.shape[1] == HEADS:  # what attention made, on its way back
            cos, sin = cos.roll(1, 0), sin.roll(1, 0)
        return old(ops, x, cos, sin)

    around(NativeSparse, "rope_pairs", change)


def masters_in_place_of_fp8() -> dict[tuple[str, str], Patch]:
    """The actor leaves its masters where the engine finds them."""

    def leave() -> None:
        def change(old: Any, masters: Any, *some: Any, **named: Any) -> Any:
            save_file(
                {name: tensor.detach().contiguous() for name, tensor in masters.master.items()},
                tools.SCRATCH / "masters.safetensors",
            )
            return old(masters, *some, **named)

        around(export_module, "export", change)
        from samebits.actor import actor as actor_module  # noqa: PLC0415

        actor_module.export = export_module.export

    def take() -> None:
        names: dict[int, str] = {}
        masters: dict[str, torch.Tensor] = {}

        def note(old: Any, held: Any, path: Any, version: int) -> Any:
            done = old(held, path, version)
            names.update({id(tensor): name for name, tensor in held.tensors.items()})
            masters.update(load_file(tools.SCRATCH / "masters.safetensors"))
            return done

        def change(old: Any, weight: Any) -> Any:
            name = names.get(id(weight.values))
            return old(weight) if name not in masters else masters[name].to(weight.format.compute)

        around(EngineWeights, "refit", note)
        around(fp8, "deployed", change)

    return {("actor", "aligned"): leave, ("engine", "aligned"): take}


TABLE = "model.layers.0.mlp.gate.tid2eid"


def no_hash_table() -> None:
    def change(old: Any, tensors: Any, path: Any, metadata: Any) -> None:
        old({name: tensor for name, tensor in tensors.items() if name != TABLE}, path, metadata)

    around(export_module, "save_file", change)


def another_hash_table() -> None:
    def change(old: Any, tensors: Any, path: Any, metadata: Any) -> None:
        old(tensors | {TABLE: tensors[TABLE].flip(0).contiguous()}, path, metadata)

    around(export_module, "save_file", change)


def without_fp8(text: str) -> str:
    """FP8's four significant bits hide most differences of an fp32 sum."""
    return text.replace("fp8_block = 32", "fp8_block = 0").replace('quantization = "fp8"\n', "")


def fp8_not_asked(text: str) -> str:
    """A row that certifies the family in bf16."""
    return text.replace('quantization = ["fp8"]', "quantization = []")


FAULTS = [
    Fault(
        name="indexer tie broken the other way",
        by=Check("contract.selection"),
        recipe="ds4",
        patches=engine(lower_position_last(wide=True)),
    ),
    Fault(
        name="router tie broken the other way",
        by=Check("contract.routing"),
        recipe="ds4",
        patches=engine(lower_position_last(wide=False)),
    ),
    Fault(
        name="experts combined in another order",
        by=Check("bits.equal"),
        recipe="ds4",
        patches=engine(last_expert_first),
    ),
    Fault(
        name="compressor state lost at a chunk boundary",
        by=Check("bits.equal"),
        recipe="ds4",
        patches=engine(state_lost_between_chunks),
    ),
    Fault(name="one window shifted by one", by=Check("bits.equal"), recipe="ds4", patches=engine(third_window_shifted)),
    Fault(
        name="activation scales reused across refits",
        by=Check("contract.fp8-scales"),
        recipe="ds4",
        patches=engine(scales_from_before_the_refit),
    ),
    Fault(
        name="UE8M0 rounded down", by=Check("contract.fp8-scales"), recipe="ds4", patches=engine(scales_rounded_down)
    ),
    Fault(
        name="one Sinkhorn iteration less",
        by=Check("bits.equal"),
        recipe="ds4",
        patches=engine(one_sinkhorn_iteration_less),
    ),
    Fault(name="sink left out", by=Check("bits.equal"), recipe="ds4", patches=engine(no_sink)),
    Fault(
        name="inverse rope at another position",
        by=Check("bits.equal"),
        recipe="ds4",
        patches=engine(rotated_back_by_a_neighbours_position),
    ),
    Fault(name="masters in place of FP8", by=Check("bits.equal"), recipe="ds4", patches=masters_in_place_of_fp8()),
    Fault(
        name="selected keys in another order",
        by=Check("contract.routing"),
        recipe="ds4",
        recipe_text=without_fp8,
        row_text=fp8_not_asked,
        patches=engine(selected_keys_behind_the_window),
    ),
    Fault(
        name="a refit without the hash table",
        by=Refused("input", r"weights\.safetensors.*"),
        recipe="ds4",
        patches=actor(no_hash_table),
    ),
    Fault(
        name="a refit with another hash table",
        by=Check("refits.carried"),
        recipe="ds4",
        patches=actor(another_hash_table),
    ),
]
