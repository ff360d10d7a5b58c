"""One table: which of the engine's tensors lie where in Megatron's parameters.

The engine's names are Hugging Face's.  Megatron fuses two products of a dense layer into one parameter each:

- ``linear_qkv`` is interleaved by query group (``SelfAttention.get_query_key_value_tensors``): of each key/value head
  first the rows of its query heads, then those of its key, then those of its value: ``q q k v  q q k v  …``.
- ``linear_fc1`` has all rows of the gate, then all of up (``MLP.forward`` chunks in two and activates the first).

The same blocks describe the rows of a weight and the channels of its product, so parameters and activations cannot be
laid out by two different rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, unflatten

from samebits.models.config import DenseConfig
from samebits.models.dense import EMBEDDING, FINAL_NORM, HEAD


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocks:
    """``groups`` blocks after one another, each of one piece of every part: part j gives ``sizes[j]`` rows to each."""

    groups: int
    sizes: tuple[int, ...]

    def fuse(self, parts: Sequence[Tensor], dim: int = 0) -> Tensor:
        """Parts of ``groups * sizes[j]`` along ``dim`` to one tensor; differentiable."""
        pieces = [unflatten(part, dim, (self.groups, size)) for part, size in zip(parts, self.sizes, strict=True)]
        return torch.cat(pieces, dim=dim + 1).flatten(dim, dim + 1)

    def split(self, fused: Tensor, dim: int = 0) -> list[Tensor]:
        """What :meth:`fuse` made of parts, back to contiguous parts; differentiable."""
        blocks = unflatten(fused, dim, (self.groups, sum(self.sizes)))
        return [
            piece.flatten(dim, dim + 1).contiguous() for piece in torch.split(blocks, list(self.sizes), dim=dim + 1)
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One parameter of Megatron's: made of one of the engine's tensors, or of several in ``blocks``."""

    parameter: str
    tensors: tuple[str, ...]
    blocks: Blocks | None = None

    def fuse(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """The parameter, made of the engine's tensors; one that is not fused is the very tensor."""
        if self.blocks is None:
            return tensors[self.tensors[0]]
        return self.blocks.fuse([tensors[name] for name in self.tensors])

    def split(self, parameter: Tensor) -> dict[str, Tensor]:
        """The engine's tensors, made of the parameter; one that is not fused is the very parameter."""
        if self.blocks is None:
            return {self.tensors[0]: parameter}
        return dict(zip(self.tensors, self.blocks.split(parameter), strict=True))


def qkv_blocks(dense: DenseConfig) -> Blocks:
    """Rows of ``linear_qkv``: for each key/value head its query heads, its key, its value."""
    size, heads = dense.head_dim, dense.num_attention_heads // dense.num_key_value_heads
    return Blocks(groups=dense.num_key_value_heads, sizes=(heads * size, size, size))


def gate_up_blocks(dense: DenseConfig) -> Blocks:
    """Rows of ``linear_fc1``: all of the gate, all of up."""
    return Blocks(groups=1, sizes=(dense.intermediate_size, dense.intermediate_size))


def table(dense: DenseConfig) -> list[Entry]:
    """Every parameter of a dense ``GPTModel``, in Megatron's order; a tied head has none of its own."""
    entries = [Entry(parameter="embedding.word_embeddings.weight", tensors=(EMBEDDING,))]
    for layer in range(dense.num_hidden_layers):
        entries += _layer(dense, f"decoder.layers.{layer}", f"model.layers.{layer}")
    entries.append(Entry(parameter="decoder.final_layernorm.weight", tensors=(FINAL_NORM,)))
    if not dense.tie_word_embeddings:
        entries.append(Entry(parameter="output_layer.weight", tensors=(HEAD,)))
    return entries


def _layer(dense: DenseConfig, ours: str, engine: str) -> list[Entry]:
    def same(parameter: str, tensor: str) -> Entry:
        return Entry(parameter=f"{ours}.{parameter}.weight", tensors=(f"{engine}.{tensor}.weight",))

    def fused(parameter: str, tensors: Sequence[str], blocks: Blocks) -> Entry:
        return Entry(
            parameter=f"{ours}.{parameter}.weight",
            tensors=tuple(f"{engine}.{tensor}.weight" for tensor in tensors),
            blocks=blocks,
        )

    norms = ("q", "k") if dense.qk_norm else ()
    return [
        same("input_layernorm", "input_layernorm"),
        same("self_attention.linear_proj", "self_attn.o_proj"),
        fused("self_attention.linear_qkv", [f"self_attn.{part}_proj" for part in "qkv"], qkv_blocks(dense)),
        *(same(f"self_attention.{part}_layernorm", f"self_attn.{part}_norm") for part in norms),
        same("pre_mlp_layernorm", "post_attention_layernorm"),
        fused("mlp.linear_fc1", ["mlp.gate_proj", "mlp.up_proj"], gate_up_blocks(dense)),
        same("mlp.linear_fc2", "mlp.down_proj"),
    ]
