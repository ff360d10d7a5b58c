"""Op sets by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from samebits.errors import InputError
from samebits.ops.native import Native
from samebits.ops.opset import OpSet
from samebits.ops.plain import Plain

OP_SETS: Final[dict[str, Callable[[], OpSet]]] = {"native": Native, "plain": Plain}
"""How each op set is made, by the name that recipes and workers use."""


def opset(name: str) -> OpSet:
    """The op set called ``name``.

    Raises:
        InputError: there is none of that name.
    """
    if name not in OP_SETS:
        raise InputError(
            "op_set",
            found=repr(name),
            accepted=", ".join(OP_SETS),
            next_step="Use one of these names.",
        )
    return OP_SETS[name]()
