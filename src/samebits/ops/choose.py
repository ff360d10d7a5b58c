"""Op sets by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from samebits.errors import InputError
from samebits.ops.native import Native
from samebits.ops.opset import OpSet
from samebits.ops.plain import Plain
from samebits.ops.vllm import open_vllm
from samebits.ops.vllm_cpu import open_vllm_cpu

OP_SETS: Final[dict[str, Callable[..., OpSet]]] = {
    "native": Native,
    "plain": Plain,
    # These compute dense families only, and say so in ``model_types``; whoever opens one for a model asks.
    "vllm": cast("Callable[..., OpSet]", open_vllm),
    "vllm-cpu": cast("Callable[..., OpSet]", open_vllm_cpu),
}
"""How each op set is made, by the name that recipes and workers use; its switches are keyword arguments."""

SWITCHES: Final[dict[str, dict[str, bool]]] = {
    "native": {},
    "plain": {},
    "vllm": {"batch_invariant": True},
    "vllm-cpu": {"attention_split_kv": False},
}
"""The switches of each op set, and how they stand where nobody says."""


def open_op_set(name: str, switches: Mapping[str, Any] | None = None) -> OpSet:
    """The op set called ``name``, its ``switches`` (all of them true or false) as given.

    Opening an op set that borrows an engine's primitives imports that engine, and may set up this process for it.

    Raises:
        InputError: there is none of that name, or it has no such switch.
        MachineError: the engine that it borrows from is not there, or is another version.
    """
    if name not in OP_SETS:
        raise InputError(
            "op_set",
            found=repr(name),
            accepted=", ".join(OP_SETS),
            next_step="Use one of these names.",
        )
    given = dict(switches or {})
    for switch, value in given.items():
        if switch not in SWITCHES[name]:
            raise InputError(
                f"switches.{switch}",
                found=f"a switch that op set {name!r} does not have",
                accepted=", ".join(SWITCHES[name]) or "no switches",
                next_step="Remove it, or choose the op set that has it.",
            )
        if not isinstance(value, bool):
            raise InputError(
                f"switches.{switch}",
                found=repr(value),
                accepted="true or false",
                next_step="Correct the row's switch.",
            )
    return OP_SETS[name](**{**SWITCHES[name], **given})
