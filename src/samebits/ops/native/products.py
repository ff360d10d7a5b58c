"""Batches of small products, each of one fixed shape."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

ONEDNN_FROM: Final = 16**3
"""``mkldnn_gemm_min_size`` in ATen: a bf16 ``bmm`` with more multiplications than this goes to oneDNN, others do not.

It counts those of the whole batch, so a batch of few matrices could take another kernel than one of many.
"""


def one_each(left: Tensor, right: Tensor) -> Tensor:
    """``torch.bmm``: [N, M, K] by [N, K, P] to [N, M, P], every product by the kernel that a large N would take."""
    count, rows, inner = left.shape
    least = ONEDNN_FROM // max(rows * inner * right.shape[2], 1) + 1
    if count >= least:
        return torch.bmm(left, right)
    padded = torch.bmm(
        torch.cat((left, left.new_zeros((least - count, *left.shape[1:])))),
        torch.cat((right, right.new_zeros((least - count, *right.shape[1:])))),
    )
    return padded[:count]
