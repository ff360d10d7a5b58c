"""Megatron itself is asked where its parameters go; the table must say the same.

A table that is wrong in the same way in both directions passes every round trip.  So nothing here reads one:

- :func:`check_rows`: rows are numbered, the numbers are put where a fused product would come out, and Megatron's own
  code takes them apart.
- :func:`check_order`: a forward of Megatron's and one of the family's are watched, and must use the same tensors in the
  same order.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import torch
from torch import Tensor, nn

from samebits.actor.megatron.mapping import Entry
from samebits.errors import InputError
from samebits.models.dense import Dense
from samebits.models.family import Weights
from samebits.ops.opset import Batch, OpSet

QUERY_KEY_VALUE: Final = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
GATE_UP: Final = ("mlp.gate_proj", "mlp.up_proj")


def check_rows(model: Any, entries: Sequence[Entry]) -> None:
    """That every fused parameter is laid out as Megatron takes it apart.

    Raises:
        InputError: the first of the engine's tensors that Megatron would take from elsewhere, and from where.
    """
    fused = {entry.parameter: entry for entry in entries if entry.blocks is not None}
    for number, layer in enumerate(model.decoder.layers):
        ours, engine = f"decoder.layers.{number}", f"model.layers.{number}"
        for parameter, roles, taken in (
            ("self_attention.linear_qkv", QUERY_KEY_VALUE, _query_key_value(layer.self_attention)),
            ("mlp.linear_fc1", GATE_UP, _gate_up(layer.mlp)),
        ):
            names = [f"{engine}.{role}.weight" for role in roles]
            _compare(fused[f"{ours}.{parameter}.weight"], dict(zip(names, taken, strict=True)))


def check_order(model: nn.Module, run: Callable[[], object], entries: Sequence[Entry], used: Sequence[str]) -> None:
    """That ``run``, a forward of ``model``, uses the tensors ``used`` in that order.

    Raises:
        InputError: the first that is used out of turn.
    """
    table = {entry.parameter: entry.tensors for entry in entries}
    found: list[str] = []
    hooks = []
    for name, module in model.named_modules():
        # A tied head has no weight of its own: it is the embedding's.
        parameter = f"{name}.weight" if f"{name}.weight" in table else "embedding.word_embeddings.weight"
        if f"{name}.weight" in table or name == "output_layer":
            hooks.append(module.register_forward_pre_hook(lambda *_, at=parameter: found.extend(table[at])))
    try:
        with torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    for place in range(max(len(found), len(used))):
        ours, theirs = (names[place] if place < len(names) else "nothing more" for names in (found, used))
        if ours != theirs:
            _refuse(theirs, f"Megatron uses {ours} in its place", f"number {place} of the tensors that a forward uses")


def order_of_use(family: Dense, ops: OpSet, weights: Weights, batch: Batch) -> list[str]:
    """Names of the tensors in the order in which the family's own forward takes them up, each once at a time."""
    reads = _Reads(weights)
    with torch.no_grad():
        family.logits(ops, reads, family.hidden_states(ops, reads, batch))
    return reads.names


class _Reads(dict[str, Tensor]):
    """Weights that remember which of them were read."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights)
        self.names: list[str] = []

    def __getitem__(self, name: str) -> Tensor:
        self.names.append(name)
        return super().__getitem__(name)


def _query_key_value(attention: Any) -> list[Tensor]:
    """Rows of the fused parameter that Megatron takes for queries, keys and values."""
    numbers = _numbers(attention.linear_qkv)
    with _replaced(attention, linear_qkv=_Says(numbers), q_layernorm=None, k_layernorm=None):
        taken = attention.get_query_key_value_tensors(numbers)
    return [part.flatten() for part in taken]


def _gate_up(mlp: Any) -> list[Tensor]:
    """Rows that Megatron activates, and rows that it multiplies with them."""
    numbers = _numbers(mlp.linear_fc1)
    config = copy.copy(mlp.config)
    config.use_te_activation_func = False  # Megatron's own line, which our activation module stands for
    with _replaced(mlp, config=config, linear_fc1=_Says(numbers), linear_fc2=_Passes()):
        # activation(gate) * up, with an activation that keeps the gate and one that forgets it.
        config.activation_func = nn.Identity()
        product, _ = mlp(numbers)
        config.activation_func = torch.ones_like
        up, _ = mlp(numbers)
    return [(product / up).flatten(), up.flatten()]


def _compare(entry: Entry, taken: dict[str, Tensor]) -> None:
    said = entry.split(torch.arange(sum(len(part) for part in taken.values()), dtype=torch.float64) + 1)
    for name, found in taken.items():
        rows = said.get(name)
        if rows is None or len(rows) != len(found):
            told = "not in the table" if rows is None else f"{len(rows)} rows"
            _refuse(name, told, f"{len(found)} rows of {entry.parameter}")
        if not torch.equal(rows, found):
            row = int((rows != found).nonzero()[0])
            _refuse(
                name,
                f"row {row} at row {int(rows[row]) - 1} of {entry.parameter}",
                f"row {int(found[row]) - 1}, from where Megatron takes it",
            )


def _refuse(name: str, found: str, accepted: str) -> NoReturn:
    raise InputError(
        f"mapping of {name}",
        found=found,
        accepted=accepted,
        next_step="Use the release of megatron-core that the row pins, or mend actor/megatron/mapping.py.",
    )


def _numbers(linear: Any) -> Tensor:
    """The rows of a product, from 1: [1, 1, N] in float64, where products and quotients of them are exact."""
    return (torch.arange(len(linear.weight), dtype=torch.float64) + 1).view(1, 1, -1)


class _Says(nn.Module):
    """In place of a product: says what it was told."""

    def __init__(self, told: Tensor) -> None:
        super().__init__()
        self._told = told

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        del x
        return self._told, None


class _Passes(nn.Module):
    """In place of a product: nothing is computed."""

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return x, None


@contextmanager
def _replaced(module: nn.Module, **others: Any) -> Iterator[None]:
    before = {name: getattr(module, name) for name in others}
    try:
        for name, other in others.items():
            setattr(module, name, other)
        yield
    finally:
        for name, own in before.items():
            setattr(module, name, own)
