"""Whether Megatron's persistent matmul and vLLM's give the same bits: an observation, on a GPU.

``python bench/megatron_kernels.py`` prints one JSON line for each shape: elements that differ, and for each of the two
elements that differ between a batch and its rows alone.  Both descend from thinking-machines-lab/batch_invariant_ops;
their tiles are chosen apart.  Needs an environment with a GPU, vLLM and Megatron-core.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable

import torch
from torch import Tensor

SHAPES = [(1, 1024, 1024), (7, 1024, 3072), (64, 3072, 1024), (500, 2048, 6144), (128, 4096, 151_936)]
"""Rows, inner width, columns."""

MEGATRON = "megatron.core.transformer.custom_layers.batch_invariant_kernels"
VLLM = ("vllm.model_executor.layers.batch_invariant", "vllm.model_executor.determinism.batch_invariant")
"""Where releases keep it."""

Product = Callable[[Tensor, Tensor], Tensor]


def kernel(*modules: str) -> Product:
    for name in modules:
        try:
            return importlib.import_module(name).matmul_persistent
        except ModuleNotFoundError as error:
            missing = error
    raise missing


def differing(found: Tensor, expected: Tensor) -> int:
    return int((found.view(torch.int16) != expected.view(torch.int16)).sum())


def main() -> None:
    if not torch.cuda.is_available():
        print(json.dumps({"status": "not run", "reason": "no GPU"}))
        return
    products = {"megatron": kernel(MEGATRON), "vllm": kernel(*VLLM)}
    torch.manual_seed(0)
    for rows, inner, columns in SHAPES:
        x = torch.randn(rows, inner, device="cuda").bfloat16()
        weight = (torch.randn(columns, inner, device="cuda") * 0.05).bfloat16()
        made = {name: product(x, weight.t()) for name, product in products.items()}
        said = {"rows": rows, "inner": inner, "columns": columns}
        said["differ"] = differing(made["megatron"], made["vllm"])
        for name, product in products.items():
            alone = torch.cat([product(x[row : row + 1], weight.t()) for row in range(min(rows, 8))])
            said[f"{name}_against_the_row_alone"] = differing(made[name][: len(alone)], alone)
        print(json.dumps(said))


if __name__ == "__main__":
    main()
