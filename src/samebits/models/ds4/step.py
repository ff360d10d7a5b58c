"""What all parts of one forward share: ops, weights, batch, positions, and who watches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from samebits.models.ds4.config import OVERLAPPING, Ds4Config
from samebits.models.ds4.rope import Tables, tables
from samebits.models.ds4.tensors import SCALE
from samebits.models.family import TRAINED, Weights
from samebits.ops.fp8 import Fp8Weight
from samebits.ops.opset import Batch, OpSet


class Rows(NamedTuple):
    """Activations on their way into products: as they are, and as FP8 leaves them (the same without FP8)."""

    plain: Tensor
    quantised: Tensor


class Completed(NamedTuple):
    """The compressor windows that end in this forward, in order of packed rows."""

    sequences: Tensor
    """int64 [N]."""
    entries: Tensor
    """int64 [N]: entry j covers tokens j·r … (j+1)·r − 1."""
    tokens: Tensor
    """int64 [N, R]: the window's tokens, −1 where it begins before the sequence."""


class Window(NamedTuple):
    """The tokens that each token sees directly, its own last."""

    tokens: Tensor
    """int64 [T, window], −1 before the sequence."""
    exists: Tensor
    """bool [T, window]."""


@dataclass(slots=True)
class Step:
    """One forward."""

    config: Ds4Config
    ops: OpSet
    weights: Weights
    batch: Batch
    _completed: dict[int, Completed] = field(default_factory=dict)
    _ropes: dict[bool, Tables] = field(default_factory=dict)
    _window: Window | None = None

    def rows(self, x: Tensor, layer: int, what: str) -> Rows:
        """``x`` [..., K] quantised once for all products that read it."""
        if self.config.fp8 is None:
            return Rows(x, x)
        quantised, scales = self.ops.quantise(x, self.config.fp8)
        if self.batch.observer is not None and len(x) == len(self.batch.token_ids):
            self.batch.observer.decided(layer, f"scales.{what}", scales)
        return Rows(x, quantised)

    def linear(self, rows: Rows, name: str) -> Tensor:
        """By a matrix that is quantised wherever the model is: [T, K] to [T, N] in the model's dtype."""
        weight = self.matrix(name)
        if isinstance(weight, Fp8Weight):
            return self.ops.fp8_linear(rows.quantised, weight, rows.plain.dtype)
        return self.ops.linear(rows.plain, weight)

    def matrix(self, name: str) -> Tensor | Fp8Weight:
        """A matrix that is quantised wherever the model is."""
        if self.config.fp8 is None:
            return self.weights[name]
        trained = self.weights.get(name + TRAINED)
        return Fp8Weight(self.weights[name], self.weights[name + SCALE], self.config.fp8, trained)

    def norm(self, x: Tensor, name: str) -> Tensor:
        """RMS norm, fp32 [..., K]."""
        return self.ops.normalise(x, self.weights[name], self.config.rms_norm_eps)

    def completed(self, ratio: int) -> Completed:
        """Windows of ``ratio`` tokens that end here."""
        if ratio not in self._completed:
            positions, sequences = self.batch.positions, self.batch.sequences
            rows = ((positions + 1) % ratio == 0).nonzero().squeeze(1)
            entries = torch.div(positions[rows], ratio, rounding_mode="floor")
            before = ratio if ratio == OVERLAPPING else 0
            tokens = entries[:, None] * ratio + torch.arange(-before, ratio)
            self._completed[ratio] = Completed(sequences[rows], entries, tokens.masked_fill_(tokens < 0, -1))
        return self._completed[ratio]

    @property
    def window(self) -> Window:
        """The window of every token."""
        if self._window is None:
            tokens = self.batch.positions[:, None] + torch.arange(1 - self.config.sliding_window, 1)
            exists = tokens >= 0
            self._window = Window(tokens.masked_fill_(~exists, -1), exists)
        return self._window

    def rope(self, *, compressed: bool) -> Tables:
        """fp32 [T, R/2] twice, at the tokens' positions."""
        if compressed not in self._ropes:
            self._ropes[compressed] = self.rope_at(self.batch.positions, compressed=compressed)
        return self._ropes[compressed]

    def rope_at(self, positions: Tensor, *, compressed: bool) -> Tables:
        """fp32 [N, R/2] twice."""
        cos, sin = tables(self.config, compressed=compressed)
        return cos.index_select(0, positions), sin.index_select(0, positions)
