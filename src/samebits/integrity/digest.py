"""Digests of tensors: what a tensor *is*, bit for bit, in one line of text.

BLAKE3 (O'Connor et al., 2020) over a header with dtype and shape, then over the tensor's own memory.  The header is
there because bytes alone cannot tell [2, 3] from [3, 2], or bf16 from fp16; a refit that reshapes is not a refit that
arrived.  −0.0 and 0.0 differ, as do two NaNs with different payloads.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import torch
from blake3 import blake3
from torch import Tensor

from samebits.errors import MachineError

SCHEME: Final = "samebits.tensor.v1"
"""First line of the header; changes whenever the same tensor would get another digest."""

_PARALLEL_BYTES: Final = 1 << 20
"""From here on one tensor is hashed by all threads; below, starting them costs more than it saves."""


def tensor_digest(tensor: Tensor, *, threads: int = 1) -> str:
    """``blake3:<hex>`` of a dense tensor of any dtype, shape, layout in memory and device.

    Hashed are the lines ``samebits.tensor.v1``, the dtype as torch names it (``bfloat16``) and the shape
    (``576,1536``; empty for a scalar), each ended by a newline, and then the elements in row-major order, each
    little-endian.  A contiguous CPU tensor is read where it lies.

    Raises:
        MachineError: the machine is big-endian.
        TypeError: the tensor is sparse, quantized or without data.
    """
    if sys.byteorder != "little":
        raise MachineError(
            "byte order",
            found=sys.byteorder,
            accepted="little-endian, in which the digest is defined",
            next_step="Run on another machine.",
        )
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        raise TypeError(f"a digest is taken of a dense tensor with data, not of {tensor.layout} on {tensor.device}")
    hasher = blake3(header(tensor), max_threads=threads)
    hasher.update(_bytes(tensor))
    return f"blake3:{hasher.hexdigest()}"


def digests(tensors: Mapping[str, Tensor], *, threads: int | None = None) -> dict[str, str]:
    """The digest of each tensor, in the mapping's order; ``threads`` defaults to torch's own number.

    Large tensors are hashed one after the other by all threads, small ones side by side.
    """
    count = torch.get_num_threads() if threads is None else threads
    large = {name for name, tensor in tensors.items() if tensor.nbytes >= _PARALLEL_BYTES}
    small = [name for name in tensors if name not in large]
    found = {name: tensor_digest(tensors[name], threads=count) for name in large}
    with ThreadPoolExecutor(count) as pool:
        found.update(zip(small, pool.map(lambda name: tensor_digest(tensors[name]), small), strict=True))
    return {name: found[name] for name in tensors}


def header(tensor: Tensor) -> bytes:
    """What is hashed before the elements."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{SCHEME}\n{dtype}\n{','.join(map(str, tensor.shape))}\n".encode()


def _bytes(tensor: Tensor) -> memoryview:
    """The elements in row-major order; no copy where they lie so already."""
    dense = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    # NumPy knows neither bf16 nor fp8, but every dtype can be seen as bytes.
    return dense.reshape(-1).view(torch.uint8).numpy().data
