"""Variables that a library may read again at any time, and that decide bits when it does."""

from __future__ import annotations

import os
from typing import Final

PREFIXES: Final = (
    "ATEN_",
    "CUBLAS_",
    "CUDA_",
    "CUDNN_",
    "DNNL_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "NCCL_",
    "NVIDIA_",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "PYTORCH_",
    "TORCH_",
    "VLLM_",
)
"""Thread counts, instruction sets, kernels, the aligned switch."""


def deciding_variables() -> dict[str, str]:
    """Those of this process, by name."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIXES)}
