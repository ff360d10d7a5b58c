"""DeepSeek-V4 weights drawn from a seed, as a folder holds them.

Sinks, position biases and hyper-connections are drawn away from the values at which a forward that forgot them would
still pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from samebits.models.ds4.decoder import DeepSeekV4
from samebits.models.ds4.tensors import HEAD
from samebits.recipe.model import Ds4Shape

Draw = Callable[[str, int], npt.NDArray[np.float64]]
"""So many standard normal numbers of the stream of this name."""

_OURS: Final = {"fp8_block", "fp8_scale", "initializer_range", "lm_head_std", "selection_bias"}

NORM_SPREAD: Final = 0.05
BIAS_SPREAD: Final = 0.5


def config(shape: Ds4Shape, dtype: str) -> dict[str, Any]:
    """The ``config.json``."""
    found: dict[str, Any] = {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": "deepseek_v4",
        "dtype": dtype,
        "num_hidden_layers": len(shape.compress_ratios),
        **shape.model_dump(exclude=_OURS),
    }
    if shape.fp8_block:
        found["quantization_config"] = {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [shape.fp8_block, shape.fp8_block],
            "scale_fmt": shape.fp8_scale,
        }
    return found


def weights(shape: Ds4Shape, dtype: str, draw: Draw) -> dict[str, Tensor]:
    """Every tensor that engines get: drawn in float64, rounded to fp32, to ``dtype``, and where it applies to FP8."""
    decoder = DeepSeekV4(config(shape, dtype))
    model_dtype = {"bfloat16": torch.bfloat16, "float32": torch.float32}[dtype]
    found = {}
    for name, size in decoder.parameter_shapes().items():
        numbers = draw(name, int(np.prod(size))).reshape(size)
        if name.endswith(".tid2eid"):
            found[name] = _table(name, size, shape.n_routed_experts, draw)
            continue
        centre, spread = _centre_and_spread(name, size, shape)
        values = torch.from_numpy((centre + spread * numbers).astype(np.float32))
        form = decoder.ds4_parameters[name].form
        found[name] = values if form == "fp32" else values.to(model_dtype)
    return decoder.deploy(found)


def _centre_and_spread(name: str, size: tuple[int, ...], shape: Ds4Shape) -> tuple[float, float]:
    if name == HEAD:
        return 0.0, shape.lm_head_std
    if name.endswith("e_score_correction_bias"):
        return shape.selection_bias, NORM_SPREAD
    if name.endswith(("sinks", "position_bias", "base")):
        return 0.0, BIAS_SPREAD
    if len(size) == 1:  # norms, and the scales of hyper-connections
        return 1.0, NORM_SPREAD
    return 0.0, shape.initializer_range


def _table(name: str, size: tuple[int, ...], experts: int, draw: Draw) -> Tensor:
    """For each token the experts with the lowest of as many numbers: distinct ones, in no order."""
    numbers = draw(name, size[0] * experts).reshape(size[0], experts)
    return torch.from_numpy(np.argsort(numbers, axis=1, kind="stable")[:, : size[1]].copy())
