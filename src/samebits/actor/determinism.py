"""torch, set up so that the same calls give the same bits."""

from __future__ import annotations

import os

import torch
import torch.utils.deterministic


def be_deterministic(threads: int) -> None:
    """For this whole process: ``threads`` for every op, and only algorithms whose sums have one order."""
    # What cuBLAS needs for that, and reads when it starts; an op set may have asked for it already, in its own words.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    # Filling every new tensor with NaN would find reads of unwritten memory, at the price of a write per tensor.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # a module property
