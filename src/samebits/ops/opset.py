"""What an op set is: the handful of operations that every model family is written over.

A family (``samebits.models``) never calls torch arithmetic on activations itself; it calls an op set.  ``native``
computes each row from that row alone, ``plain`` is ordinary torch (the control arm), and the op set of a vLLM row
borrows the engine's own primitives (``ops.borrowed``).  Swapping the op set is the *aligned switch* of row ``cpu``.

An op set lives on one device; every tensor that it gets is there, and so is every one that it returns.  Floating-point
arguments of one call share a dtype, the model's, unless a docstring names another.

Shapes: ``T`` packed tokens of all sequences in this forward, ``B`` sequences, ``H`` query heads, ``G`` key/value
heads, ``D`` head size, ``L`` key slots (at least the longest sequence; ``native`` gives the same bits for any), ``V``
vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import torch
from torch import Tensor

from samebits.ops.observer import Observer
from samebits.ops.rope import Rope
from samebits.ops.sparse import SparseOps

KEYS: Final = "k"
VALUES: Final = "v"
"""The caches that :meth:`OpSet.attention` reads: rows [G, D] a token, keys after rope."""

T = TypeVar("T")


class Batch(Protocol):
    """The sequences packed into one forward, and what each of them has computed before.

    The engine implements this over its pages, the actor over the packed tensors of a training forward.  It is all
    that a family knows about caching.  Rows of a packed tensor belong to sequences in order: sequence ``b`` owns rows
    ``starts[b] : starts[b + 1]``, which sit at positions ``offsets[b], offsets[b] + 1, …`` of the sequence.
    """

    @property
    def token_ids(self) -> Tensor:
        """int64 [T]."""

    @property
    def positions(self) -> Tensor:
        """int64 [T], absolute position in the sequence."""

    @property
    def starts(self) -> list[int]:
        """B + 1 row offsets into the packed tensors; the last one is T."""

    @property
    def offsets(self) -> list[int]:
        """Position of each sequence's first row in this forward; 0 where nothing came before."""

    @property
    def sequences(self) -> Tensor:
        """int64 [T], the sequence of each row."""

    @property
    def observer(self) -> Observer | None:
        """Who watches this forward, if anybody."""

    def store(self, layer: int, name: str, rows: Tensor, *, stride: int = 1) -> None:
        """Append ``rows`` [T, …] to cache ``name`` of ``layer``, each to its own sequence.

        With a ``stride`` r the cache has one row for every r tokens, and ``rows`` has one for each packed row whose
        position p completes one: (p + 1) % r == 0.
        """

    def gather(self, layer: int, name: str) -> Tensor:
        """[B, L, …]: everything stored so far under ``name``, one sequence a row, zeros after its end.

        With a stride r there are ⌊L/r⌋ rows.  Not for a cache with a window.
        """

    def packed(self, layer: int, name: str) -> Tensor:
        """[N, …]: everything stored so far under ``name``, one sequence after the other without padding.

        Sequence ``b`` has ``offsets[b] + starts[b + 1] - starts[b]`` rows.  Not for a cache with a stride or a window.
        """

    def select(self, layer: int, name: str, sequences: Tensor, rows: Tensor) -> Tensor:
        """Single rows of a cache: int64 [N] and int64 [N, S] to [N, S, …]; row −1 is zero.

        Every other row must have been stored, and not have left the cache's window.
        """

    def run_layer(self, compute: Callable[..., T], *arguments: Tensor | None) -> T:
        """``compute(*arguments)``, a layer that stores and reads its own caches only.

        A training batch may drop the layer's activations and caches, and compute them again in the backward.
        """


class OpSet(SparseOps, Protocol):
    """The operations.  All are differentiable; forwards of ``native`` are row-invariant, backwards need not be."""

    name: str
    device: torch.device
    model_types: frozenset[str] | None
    """``model_type`` of the families that it can compute; ``None``: all of them."""

    def describe(self) -> dict[str, str]:
        """What decides this set's bits (tiles, dtypes inside), op by op, for the certificate."""

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        """``x @ weight.T``: [T, K] by [N, K] to [T, N], in the dtype of ``x``, accumulated in fp32."""

    def linears(self, x: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
        """:meth:`linear` of one input by several weights, fused where the engine fuses them: q/k/v, gate/up.

        [T, K] by [N₁, K], [N₂, K], … to [T, N₁], [T, N₂], …, which may be views of one tensor.
        """

    def embedding(self, token_ids: Tensor, table: Tensor) -> Tensor:
        """Rows of ``table`` [V, K] at int64 [T]: [T, K]."""

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """The residual sum, same shape and dtype."""

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Over the last dimension [..., K], fp32 inside, one cast to the dtype of ``weight`` before the scale."""

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        """The residual sum's RMS norm, and the sum itself in the dtype of ``x``.

        Where the engine fuses the two, the norm is of the fp32 sum *before* it is rounded; ``native`` and ``plain``
        norm the rounded one.
        """

    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor:
        """``silu(gate) * up``, same shape and dtype: two of :meth:`linears`."""

    def rope_tables(self, positions: Tensor, rope: Rope, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cos and sin [T, D/2] at int64 [T], for :meth:`rope` on activations of ``dtype``.

        In the dtype and from the arithmetic that the op set rotates with: fp32, or that of the model.
        """

    def rope(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotates halves (Llama/Qwen convention): x [T, H, D] by its :meth:`rope_tables`; result in dtype of ``x``."""

    def attention(self, query: Tensor, batch: Batch, layer: int) -> Tensor:
        """Causal softmax attention of packed queries [T, H, D] over what ``layer`` has stored, to [T, H, D].

        Reads :data:`KEYS` and :data:`VALUES`, [G, D] a token.  The query at position p of its sequence sees the rows
        of positions 0 … p.  Scale D^-1/2.
        """

    def token_logprobs(self, logits: Tensor, token_ids: Tensor) -> Tensor:
        """Raw log-softmax at one coordinate per row: [T, V] and int64 [T] to fp32 [T].

        *Raw* as vLLM's ``logprobs_mode=raw_logprobs``: before temperature and every logits processor.
        """
