"""The dense family with its parameters held by Megatron's GPTModel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from samebits.actor.megatron.mapping import Entry, table
from samebits.actor.ulp import patterns
from samebits.errors import InputError
from samebits.models.dense import Dense
from samebits.models.family import Deployed, Weights


class MegatronDense(Dense):
    """A :class:`~samebits.models.dense.Dense` whose *parameters* are Megatron's, under Megatron's names.

    What engines get keeps the engine's names and shapes.  A parameter that is not fused and the deployed tensor made
    of it share their memory; fused ones are copied through ``mapping.table``, on the way in and at every refit.

    Raises:
        InputError: the model's parameters are not those of the table.
    """

    def __init__(self, config: Mapping[str, Any], model: nn.Module) -> None:
        super().__init__(config)
        held = dict(model.named_parameters())
        self._model = model
        self._table = table(self.dense)
        self._entry = {entry.parameter: entry for entry in self._table}
        if self._entry.keys() != held.keys():
            odd = sorted(self._entry.keys() ^ held.keys())
            raise InputError(
                f"mapping of {odd[0]}",
                found="in Megatron's model only" if odd[0] in held else "in the table only",
                accepted="one entry of the table for every parameter of Megatron's",
                next_step="Use the release of megatron-core that the row pins, or mend actor/megatron/mapping.py.",
            )

    def deployed(self, dtype: torch.dtype) -> dict[str, Deployed]:
        """The engine's tensors, each with the parameter of Megatron's that holds it."""
        shapes = self.parameter_shapes()
        made = {}
        for entry in self._table:
            for name in entry.tensors:
                part = None if entry.blocks is None else _Part(entry, name)
                made[name] = Deployed(shapes[name], dtype, entry.parameter, part)
        return {name: made[name] for name in shapes}

    def parameters(self, tensors: Weights) -> dict[str, Tensor]:
        """Fills Megatron's model with the engine's tensors and returns its parameters.

        Raises:
            InputError: a fused parameter does not come apart into what it was made of.
        """
        held: dict[str, Tensor] = {}
        for entry in self._table:
            parameter = nn.Parameter(entry.fuse(tensors), requires_grad=False)
            if entry.blocks is not None:
                _check_round_trip(entry, parameter, tensors)
            module, _, name = entry.parameter.rpartition(".")
            setattr(self._model.get_submodule(module), name, parameter)
            held[entry.parameter] = parameter
        return held

    def deploy(self, weights: Weights) -> dict[str, Tensor]:
        """The engine's tensors, taken out of those parameters."""
        deployed: dict[str, Tensor] = {}
        for parameter, weight in weights.items():
            deployed |= self._entry[parameter].split(weight)
        return deployed


def _check_round_trip(entry: Entry, parameter: Tensor, tensors: Weights) -> None:
    for name, tensor in entry.split(parameter).items():
        if tensor.shape != tensors[name].shape or not torch.equal(patterns(tensor), patterns(tensors[name])):
            raise InputError(
                f"mapping of {name}",
                found=f"other bits after the way into {entry.parameter} and back",
                accepted="its own bits",
                next_step="Mend actor/megatron/mapping.py: fuse and split are not each other's inverse.",
            )


class _Part:
    """Takes one of the engine's tensors out of a fused parameter."""

    def __init__(self, entry: Entry, name: str) -> None:
        self._entry = entry
        self._name = name

    def __call__(self, parameter: Tensor) -> Tensor:
        return self._entry.split(parameter)[self._name]
