"""Whether this machine's bits may be held against the certificate's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from samebits import pins
from samebits.environment import describe
from samebits.errors import MachineError

DECIDING: Final = ("architecture", "cpuFlags", "cpuCaches", "gpus")
"""What chooses kernels: instruction set, cache sizes (tiles follow the L2), the GPU."""


def require_comparable(predicate: Mapping[str, Any], row: pins.Row) -> None:
    """Nothing if the same program must give the same bits here.

    Raises:
        MachineError: another processor, or another build of torch: not comparable, so nothing was compared.
    """
    recorded, here = predicate["environment"], describe()
    for name in DECIDING:
        if recorded.get(name) != here.get(name):
            raise _not_comparable(name, here.get(name), recorded.get(name))
    build = pins.torch_build(row)
    wheel = next((one["digest"].get("sha256") for one in predicate["configuration"] if one["name"] == "torch"), None)
    if build is not None and wheel != build.wheel_sha256:
        raise _not_comparable("torch", build.wheel_sha256, wheel)


def _not_comparable(name: str, found: object, recorded: object) -> MachineError:
    return MachineError(
        f"not comparable: {name}",
        found=_shown(found),
        accepted=f"{_shown(recorded)}, as where the certificate was made",
        next_step="Bits differ between such machines; replay on one like that one.",
    )


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
