"""fp32 values as bit patterns.

The oracle compares integers, never floats: as floats −0.0 equals +0.0 and NaN equals nothing, and both would
hide a difference.  Every logprob leaves the process that computed it as the ``uint32`` pattern of its fp32
value.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint32]

_EXPONENT = np.uint32(0x7F80_0000)


def from_float32(values: npt.NDArray[np.float32]) -> Bits:
    """The bit patterns of fp32 ``values``, any shape.

    Raises:
        TypeError: ``values`` is not fp32; a silent cast would invent bits.
    """
    if values.dtype != np.float32:
        raise TypeError(f"bit patterns are taken of float32, not {values.dtype}")
    return np.ascontiguousarray(values).view(np.uint32)


def to_float32(bits: Bits) -> npt.NDArray[np.float32]:
    """The fp32 values of ``bits``, any shape."""
    return np.ascontiguousarray(bits, dtype=np.uint32).view(np.float32)


def is_finite(bits: Bits) -> npt.NDArray[np.bool_]:
    """Where ``bits`` is neither infinite nor NaN: the exponent is not all ones (IEEE 754-2019, 3.4)."""
    finite: npt.NDArray[np.bool_] = (bits & _EXPONENT) != _EXPONENT
    return finite


def to_hex(pattern: int) -> str:
    """One pattern as text: ``0xbf800000`` is −1.0."""
    return f"{int(pattern):#010x}"


def digest(bits: Bits) -> str:
    """sha256 of patterns in order, little-endian, as lower-case hex.  This is what a worker commits to."""
    return hashlib.sha256(np.ascontiguousarray(bits, dtype="<u4").tobytes()).hexdigest()
