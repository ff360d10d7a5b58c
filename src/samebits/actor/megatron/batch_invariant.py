"""Megatron's own batch-invariant mode: what it says when it is asked for it."""

from __future__ import annotations

import contextlib
import importlib

from samebits.actor.megatron import library
from samebits.errors import GateError

FIELD = "actor.batch_invariant_mode"
KERNELS = "megatron.core.transformer.custom_layers.batch_invariant_kernels"


def refuse() -> None:
    """Asks Megatron for the mode, and refuses it whatever the answer; nothing stays switched on.

    Its kernels replace ``aten::mm`` and the like for the whole process, under the op set.  Where it does start, it
    computes other bits than the certified op set, so it is refused as well.

    Raises:
        GateError: always; ``found`` is what Megatron said.
    """
    raise GateError(
        FIELD,
        found=f"True; {_answer()}",
        accepted="False",
        next_step="Leave it off: the op set is row-invariant by itself, and its bits are the engine's.",
    )


def _answer() -> str:
    with library.quiet():  # torch warns of kernels that are replaced
        try:
            kernels = importlib.import_module(KERNELS)
        except ImportError as error:
            return f"Megatron cannot load its kernels: {error}"
        try:
            kernels.enable_batch_invariant_mode()
        except ImportError as error:
            return f"Megatron began and failed: {error}"
        finally:
            # It registers its kernels first and looks for Transformer Engine then; and so backwards.
            with contextlib.suppress(ImportError):
                kernels.disable_batch_invariant_mode()
    return "Megatron started it, and its kernels would stand in for the op set's"
