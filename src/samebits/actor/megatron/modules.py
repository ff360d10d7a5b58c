"""What the layer specification is made of: modules of Megatron's shape whose arithmetic is the op set's.

Megatron's activations are [T, 1, E] in the packed (thd) layout: all tokens, one row of a batch.  Op sets take [T, E].
Every module takes Megatron's construction arguments and ignores those that say nothing here (initialisation, biases,
groups of one process).

Megatron adds the residual first and norms the sum; an engine may fuse the two, and then norms a sum that was not
rounded (``OpSet.add_rms_norm``).  So the sum is left to the norm: :class:`Handover` stands where Megatron would add,
passes on what a sublayer adds, and the next :class:`Norm` adds it to the residual that it keeps for the forward.
Megatron itself leaves the sum to a later module in the same way where it fuses (``inference_fuse_tp_communication``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from samebits.actor.megatron.mapping import Blocks
from samebits.actor.packed_batch import PackedBatch
from samebits.ops.opset import KEYS, VALUES, OpSet


@dataclass(kw_only=True, slots=True)
class Running:
    """The forward that runs now, where Megatron has no argument for it."""

    ops: OpSet
    batch: PackedBatch | None = None
    rope: tuple[Tensor, Tensor] | None = None
    rows: Tensor | None = None
    """int64 [R]: the packed rows whose logits are wanted."""
    residual: Tensor | None = None
    """[T, E]: the sum before what the sublayer at work will add; None until the first norm."""
    handed: int = 0
    """Where the memory begins that the last :class:`Handover` passed on; a norm must be given nothing else."""

    def begin(self, batch: PackedBatch, rope: tuple[Tensor, Tensor], rows: Tensor) -> None:
        """A forward of ``batch`` starts."""
        self.batch, self.rope, self.rows, self.residual = batch, rope, rows, None

    def end(self) -> None:
        """It is over; whoever reads on fails."""
        self.batch = self.rope = self.rows = self.residual = None


class Norm(nn.Module):
    """RMS norm of the residual sum (``input_layernorm``, ``pre_mlp_layernorm``, ``final_layernorm``)."""

    def __init__(self, config: Any, hidden_size: int, eps: float, *, running: Running, **_: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden_size, dtype=config.params_dtype))
        self._epsilon = eps
        self._running = running

    def forward(self, added: Tensor) -> Tensor:
        """What the sublayer before adds, [T, 1, E], to the normed sum."""
        running, rows = self._running, added.squeeze(1)
        if running.residual is None:
            running.residual = rows
            return running.ops.rms_norm(rows, self.weight, self._epsilon).unsqueeze(1)
        if added.data_ptr() != running.handed:
            raise RuntimeError("Megatron normed another tensor than the sublayer before had passed on")
        normed, running.residual = running.ops.add_rms_norm(rows, running.residual, self.weight, self._epsilon)
        return normed.unsqueeze(1)


class Handover:
    """In place of Megatron's bias-dropout-add: there is no bias and no dropout, and the next norm adds."""

    def __init__(self, *, running: Running, **_: Any) -> None:
        self._running = running

    def __call__(self, training: bool, fused: bool) -> Callable[[tuple[Tensor, Tensor | None], Tensor, float], Tensor]:
        del training, fused
        return self._hand_over

    def _hand_over(self, sublayer: tuple[Tensor, Tensor | None], residual: Tensor, dropout: float) -> Tensor:
        del residual
        added, bias = sublayer
        if bias is not None or dropout:
            raise RuntimeError(f"a dense decoder has no bias and no dropout, and Megatron passes {bias}, {dropout}")
        self._running.handed = added.data_ptr()
        return added


class HeadNorm(nn.Module):
    """RMS norm of each query or key head (``q_layernorm``, ``k_layernorm``; Qwen3)."""

    def __init__(self, config: Any, hidden_size: int, eps: float, *, running: Running, **_: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden_size, dtype=config.params_dtype))
        self._epsilon = eps
        self._running = running

    def forward(self, heads: Tensor) -> Tensor:
        """[T, 1, H, D] to the same."""
        return self._running.ops.rms_norm(heads.squeeze(1).contiguous(), self.weight, self._epsilon).unsqueeze(1)


class Linear(nn.Module):
    """``linear_proj`` and ``linear_fc2``: one product."""

    def __init__(self, inputs: int, outputs: int, *, config: Any, running: Running, **_: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, dtype=config.params_dtype))
        self._running = running

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """[T, 1, K] to [T, 1, N] and no bias."""
        return self._running.ops.linear(x.squeeze(1), self.weight).unsqueeze(1), None


class FusedLinear(nn.Module):
    """``linear_qkv`` and ``linear_fc1``: products of one input, by the engine's weights, in Megatron's layout.

    The engine's weights are taken out of the parameter, since the engine's fused product has another order of rows
    (all queries, all keys, all values), and how a product is cut into tiles may depend on it.
    """

    def __init__(self, inputs: int, outputs: int, *, config: Any, running: Running, blocks: Blocks, **_: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, dtype=config.params_dtype))
        self._running = running
        self._blocks = blocks

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """[T, 1, K] to [T, 1, N] and no bias."""
        products = self._running.ops.linears(x.squeeze(1), self._blocks.split(self.weight))
        return self._blocks.fuse(products, dim=1).unsqueeze(1), None


class SwiGLU(nn.Module):
    """The activation between ``linear_fc1`` and ``linear_fc2``."""

    def __init__(self, config: Any, *, running: Running, **_: Any) -> None:
        super().__init__()
        del config
        self._running = running

    def forward(self, gate_and_up: Tensor) -> Tensor:
        """[T, 1, 2F], the gate first as in ``MLP.forward``, to [T, 1, F]."""
        gate, up = gate_and_up.squeeze(1).chunk(2, dim=-1)
        return self._running.ops.swiglu(gate, up).unsqueeze(1)


class CoreAttention(nn.Module):
    """Rope and causal attention over the packed sequences.

    Rope is here because Megatron's own asks for a CUDA device (``RotaryEmbedding``), and because the engine's tables,
    not Megatron's, decide the bits.
    """

    def __init__(self, config: Any, layer_number: int, *, running: Running, **_: Any) -> None:
        super().__init__()
        del config
        self._layer = layer_number - 1  # Megatron counts from 1
        self._running = running

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: None = None,
        *,
        packed_seq_params: Any,
        **_: Any,
    ) -> Tensor:
        """[T, H, D] and twice [T, G, D] to [T, H, D]."""
        ops, batch, rope = self._running.ops, self._running.batch, self._running.rope
        if batch is None or rope is None or packed_seq_params is None or packed_seq_params.qkv_format != "thd":
            raise RuntimeError("the kit's attention computes packed sequences (thd) of a running forward only")
        if attention_mask is not None:
            raise RuntimeError("the kit's attention is causal over each packed sequence and takes no mask")
        query = ops.rope(query.contiguous(), *rope)
        batch.store(self._layer, KEYS, ops.rope(key.contiguous(), *rope))
        batch.store(self._layer, VALUES, value.contiguous())
        return ops.attention(query, batch, self._layer)


class Embedding(nn.Module):
    """In place of ``VocabParallelEmbedding``."""

    def __init__(self, vocabulary: int, hidden_size: int, *, dtype: torch.dtype, running: Running) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, hidden_size, dtype=dtype))
        self._running = running

    def forward(self, token_ids: Tensor) -> Tensor:
        """int64 [1, T] to [1, T, E]."""
        return self._running.ops.embedding(token_ids.squeeze(0), self.weight).unsqueeze(0)


class Head(nn.Module):
    """In place of ``ColumnParallelLinear`` as the output layer: logits of the rows that are wanted, and of no other.

    Megatron narrows them in the same place for inference (``materialize_only_last_token_logits``): the head is by far
    the widest product.
    """

    def __init__(self, vocabulary: int, hidden_size: int, *, dtype: torch.dtype, tied: bool, running: Running) -> None:
        super().__init__()
        self.weight = None if tied else nn.Parameter(torch.empty(vocabulary, hidden_size, dtype=dtype))
        self._running = running

    def forward(
        self, hidden: Tensor, weight: Tensor | None = None, runtime_gather_output: bool | None = None
    ) -> tuple[Tensor, None]:
        """[T, 1, E] to [R, 1, V] and no bias; ``weight`` is the embedding table where the head is tied to it."""
        del runtime_gather_output
        chosen = self.weight if weight is None else weight
        if chosen is None or self._running.rows is None:
            raise RuntimeError("the head needs a weight and a running forward that says which rows it wants")
        return self._running.ops.linear(hidden.squeeze(1).index_select(0, self._running.rows), chosen).unsqueeze(
            1
        ), None
