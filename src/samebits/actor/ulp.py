"""Rule 3's perturbation: one unit in the last place, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from samebits.errors import MachineError

_INTEGER = {torch.bfloat16: torch.int16, torch.float32: torch.int32}


def patterns(tensor: Tensor) -> Tensor:
    """The bits of a bfloat16 or float32 tensor as integers of its width, sharing its memory."""
    return tensor.detach().view(_INTEGER[tensor.dtype])


@contextmanager
def one_ulp_away(name: str, weight: Tensor) -> Iterator[None]:
    """Within, every element of ``weight`` is the next value of its dtype away from zero; after, exactly as before.

    Sign and magnitude are apart in IEEE 754, so the next pattern up is the next value away from zero on both sides.

    Raises:
        MachineError: an element has no finite next value, or the weight did not come back to its own bits.
    """
    original = weight.detach().clone()
    moved = patterns(original) + 1
    if not moved.view(weight.dtype).isfinite().all():
        raise _fault(name, "an element without a finite next value", "finite weights")
    try:
        patterns(weight).copy_(moved)
        yield
        disturbed = not torch.equal(patterns(weight), moved)
    finally:
        patterns(weight).copy_(patterns(original))
    if disturbed:
        raise _fault(name, "a weight that changed while it was probed", "nothing else writing to it")
    if not torch.equal(patterns(weight), patterns(original)):
        raise _fault(name, "other bits after the probe", "the bits from before")


def _fault(name: str, found: str, accepted: str) -> MachineError:
    return MachineError(
        f"probe of {name}",
        found=found,
        accepted=accepted,
        next_step="Start the run again; if it recurs, the weights or the memory are damaged.",
    )
