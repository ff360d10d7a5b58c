"""Arrow columns as numpy arrays, without copies and without ever becoming floats.

``Array.to_numpy`` turns an integer column with nulls into float64, which would lose bits; these views do not.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Scalar = TypeVar("Scalar", bound=np.generic)
Bools = npt.NDArray[np.bool_]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


def values(array: pa.Array, dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """The values of a fixed-width column [N]; what stands under a null means nothing."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.empty(0, dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype, count=len(array), offset=array.offset * np.dtype(dtype).itemsize)


def booleans(array: pa.Array) -> Bools:
    """The values of a boolean column [N]."""
    return _bitmap(array.buffers()[1], array.offset, len(array))


def valid(array: pa.Array) -> Bools:
    """Where a column [N] is not null."""
    buffer = array.buffers()[0]
    return np.ones(len(array), dtype=np.bool_) if buffer is None else _bitmap(buffer, array.offset, len(array))


def codes(array: pa.DictionaryArray, known: tuple[str, ...]) -> tuple[Int32, Int32]:
    """The dictionary codes of a column [N], and the place in ``known`` of each dictionary entry, −1 for a stranger."""
    places = [known.index(name) if name in known else -1 for name in array.dictionary.to_pylist()]
    return values(array.indices, np.int32), np.array(places, dtype=np.int32)


def are_same_bytes(one: pa.Array, other: pa.Array) -> bool:
    """Whether two columns [N] of one fixed-width type hold the same bytes, what stands under nulls included."""
    width = one.type.bit_width // 8
    ours, theirs = (
        array.buffers()[1].slice(array.offset * width, len(array) * width) if len(array) else None
        for array in (one, other)
    )
    return ours is None or (len(one) == len(other) and bool(ours.equals(theirs)))


def is_valid_where(array: pa.Array, mask: pa.BooleanArray) -> bool:
    """Whether a column [N] has a value exactly where ``mask`` [N] is true, without unpacking either if it can be."""
    buffer = array.buffers()[0]
    whole, rest = divmod(len(array), 8)
    if buffer is None or array.offset % 8 or mask.offset % 8:
        return np.array_equal(valid(array), booleans(mask))
    ours = np.frombuffer(buffer, dtype=np.uint8, offset=array.offset // 8, count=whole + bool(rest))
    theirs = np.frombuffer(mask.buffers()[1], dtype=np.uint8, offset=mask.offset // 8, count=whole + bool(rest))
    if not np.array_equal(ours[:whole], theirs[:whole]):
        return False
    return not rest or not (int(ours[whole]) ^ int(theirs[whole])) & ((1 << rest) - 1)


_BYTES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, np.newaxis], axis=1, bitorder="little").view(np.uint64).ravel()
# The eight booleans of each byte: looking them up is many times faster than numpy.unpackbits.


def _bitmap(buffer: Any, offset: int, count: int) -> Bools:
    if buffer is None or count == 0:
        return np.zeros(count, dtype=np.bool_)
    first, shift = divmod(offset, 8)
    packed = np.frombuffer(buffer, dtype=np.uint8, offset=first, count=(shift + count + 7) // 8)
    return _BYTES[packed].view(np.bool_)[shift : shift + count]
