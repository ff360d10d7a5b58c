"""Weights drawn from a seed: the same bits on every machine, in any order, with any library version.

Each tensor has its own stream, keyed by seed and name, so no tensor depends on another or on torch's generator.
Numbers come from Philox4x64-10 (Salmon et al., SC'11), whose raw output NumPy guarantees (NEP 19), and become normal
by adding twelve 16-bit integers (Irwin–Hall, variance exactly 1 − 2^-32).  The sum is exact integer arithmetic: no
``log`` or ``cos`` whose last bit depends on the vector unit.
"""

from __future__ import annotations

import functools
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from samebits.errors import InputError
from samebits.models.dense import EMBEDDING, HEAD
from samebits.models.ds4 import seeded as ds4_seeded
from samebits.models.folder import DTYPES, open_decoder
from samebits.recipe.model import DenseShape, Model

SCHEME: Final = "samebits.seeded.v1"
"""Changes whenever the same recipe would give other bits."""

NORM_SPREAD: Final = 0.05
"""Standard deviation of norm weights around 1: at exactly 1 a forward that forgot a norm weight would pass."""

MAX_POSITIONS: Final = 32_768

_TERMS: Final = 12
_MEAN: Final = _TERMS * 65_535 / 2
_BLOCK: Final = 1 << 20  # Values drawn at a time, so that memory does not grow with the tensor; part of the scheme.


def seeded_config(model: Model) -> dict[str, Any]:
    """The ``config.json`` of a seeded model: Qwen3's where queries and keys are normalised, else Llama's.

    Raises:
        InputError: a seeded model without a shape.
    """
    if model.ds4 is not None:
        return ds4_seeded.config(model.ds4, model.dtype)
    shape = _shape(model)
    config: dict[str, Any] = {
        "architectures": ["Qwen3ForCausalLM" if shape.qk_norm else "LlamaForCausalLM"],
        "attention_bias": False,
        "dtype": model.dtype,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "hidden_size": shape.hidden_size,
        "initializer_range": shape.initializer_range,
        "intermediate_size": shape.intermediate_size,
        "max_position_embeddings": MAX_POSITIONS,
        "model_type": "qwen3" if shape.qk_norm else "llama",
        "num_attention_heads": shape.num_attention_heads,
        "num_hidden_layers": shape.num_hidden_layers,
        "num_key_value_heads": shape.num_key_value_heads,
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_parameters": {"rope_theta": shape.rope_theta, "rope_type": "default"},
        "tie_word_embeddings": shape.tie_word_embeddings,
        "vocab_size": shape.vocab_size,
    }
    return config


def seeded_weights(model: Model) -> dict[str, Tensor]:
    """Every parameter of the model in ``model.dtype``: drawn in float64, rounded to fp32, then to bf16 if asked.

    Matrices are N(0, ``initializer_range``), the head (or the table tied to it) N(0, ``lm_head_std``), norms
    N(1, :data:`NORM_SPREAD`).

    Raises:
        InputError: a seeded model without a shape, or a shape that the family refuses.
    """
    if model.ds4 is not None:
        return ds4_seeded.weights(model.ds4, model.dtype, functools.partial(normal, model.seed))
    shape = _shape(model)
    head = EMBEDDING if shape.tie_word_embeddings else HEAD

    def draw(name: str, size: tuple[int, ...]) -> Tensor:
        centre, spread = 0.0, shape.initializer_range
        if len(size) == 1:
            centre, spread = 1.0, NORM_SPREAD
        elif name == head:
            spread = shape.lm_head_std
        values = normal(model.seed, name, int(np.prod(size)))
        values *= spread
        values += centre
        return torch.from_numpy(values.astype(np.float32)).reshape(size).to(DTYPES[model.dtype])

    shapes = open_decoder(seeded_config(model)).parameter_shapes()
    # Streams are independent, and NumPy computes outside Python's lock: billions of numbers on all cores.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(shapes, pool.map(draw, shapes, shapes.values()), strict=True))


def normal(seed: int, name: str, count: int) -> npt.NDArray[np.float64]:
    """``count`` standard normal numbers of the stream ``(seed, name)``: multiples of 2^-17 within ±6."""
    digest = hashlib.sha256(f"{SCHEME}\0{seed}\0{name}".encode()).digest()
    stream = np.random.Philox(key=int.from_bytes(digest[:16], "little"))
    values = np.empty(count)
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        raw = stream.random_raw(size * _TERMS // 4 + 1).astype("<u8", copy=False)
        terms = raw.view("<u2")[: size * _TERMS].reshape(_TERMS, size)
        values[start : start + size] = (terms.sum(axis=0, dtype=np.uint32) - _MEAN) / 65_536
    return values


def _shape(model: Model) -> DenseShape:
    if model.shape is None:
        raise InputError(
            "model.shape",
            found="nothing",
            accepted="the shape of the decoder to draw",
            next_step="Add a [model.shape] table, or choose a source with weights of its own.",
        )
    return model.shape
