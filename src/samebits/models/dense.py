"""The dense decoder of Llama and Qwen3, written once over an op set.

Llama: Touvron et al., arXiv:2302.13971; grouped heads: Ainslie et al., arXiv:2305.13245; per-head RMS norm of queries
and keys before rope: Qwen3, arXiv:2505.09388.  Checked against transformers' ``LlamaForCausalLM`` and
``Qwen3ForCausalLM`` (tests/models).

Dimensions: T packed tokens, H query heads, G key/value heads, D head size, E hidden size, F intermediate size.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from samebits.models.config import parse_dense
from samebits.models.family import Cache, Deployed, Weights, plain_deployment
from samebits.ops.opset import KEYS, VALUES, Batch, OpSet
from samebits.ops.rope import Rope

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"


class Dense:
    """A :class:`~samebits.models.family.Decoder` for ``model_type`` ``llama`` and ``qwen3``.

    Raises:
        InputError: ``config`` asks for something that this family does not compute.
    """

    def __init__(self, config: Mapping[str, Any], *, source: str = "config.json") -> None:
        self.config = config
        self.dense = parse_dense(config, source=source)
        self.layers = self.dense.num_hidden_layers
        self.vocab_size = self.dense.vocab_size
        self.max_positions = self.dense.max_position_embeddings
        self._rotation = Rope(positions=self.max_positions, size=self.dense.head_dim, theta=self.dense.rope_theta)

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each parameter.  A tied head has no parameter of its own."""
        dense = self.dense
        hidden, inner = dense.hidden_size, dense.intermediate_size
        queries = dense.num_attention_heads * dense.head_dim
        keys = dense.num_key_value_heads * dense.head_dim
        shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (dense.vocab_size, hidden)}
        for layer in range(self.layers):
            at = f"model.layers.{layer}"
            shapes[f"{at}.input_layernorm.weight"] = (hidden,)
            shapes[f"{at}.self_attn.q_proj.weight"] = (queries, hidden)
            shapes[f"{at}.self_attn.k_proj.weight"] = (keys, hidden)
            shapes[f"{at}.self_attn.v_proj.weight"] = (keys, hidden)
            if dense.qk_norm:
                shapes[f"{at}.self_attn.q_norm.weight"] = (dense.head_dim,)
                shapes[f"{at}.self_attn.k_norm.weight"] = (dense.head_dim,)
            shapes[f"{at}.self_attn.o_proj.weight"] = (hidden, queries)
            shapes[f"{at}.post_attention_layernorm.weight"] = (hidden,)
            shapes[f"{at}.mlp.gate_proj.weight"] = (inner, hidden)
            shapes[f"{at}.mlp.up_proj.weight"] = (inner, hidden)
            shapes[f"{at}.mlp.down_proj.weight"] = (hidden, inner)
        shapes[FINAL_NORM] = (hidden,)
        if not dense.tie_word_embeddings:
            shapes[HEAD] = (dense.vocab_size, hidden)
        return shapes

    def deployed(self, dtype: torch.dtype) -> dict[str, Deployed]:
        """The parameters, all in ``dtype``."""
        return plain_deployment(self.parameter_shapes(), dtype)

    def deploy(self, weights: Weights) -> dict[str, Tensor]:
        """As they are."""
        return dict(weights)

    def parameters(self, tensors: Weights) -> dict[str, Tensor]:
        """As they are."""
        return dict(tensors)

    def caches(self, layer: int) -> list[Cache]:
        """Keys (after rope) and values, [G, D] a token; all layers alike."""
        del layer
        row = (self.dense.num_key_value_heads, self.dense.head_dim)
        return [Cache(name=KEYS, row_shape=row), Cache(name=VALUES, row_shape=row)]

    def hidden_states(self, ops: OpSet, weights: Weights, batch: Batch) -> Tensor:
        """All layers and the final norm over the packed tokens: [T, E] in the weights' dtype."""
        x = ops.embedding(batch.token_ids, weights[EMBEDDING])
        rope = ops.rope_tables(batch.positions, self._rotation, x.dtype)
        residual: Tensor | None = None
        for layer in range(self.layers):
            x, residual = batch.run_layer(partial(self._layer, ops, weights, batch, layer, rope), x, residual)
        return self._norm(ops, x, residual, weights[FINAL_NORM])[0]

    def logits(self, ops: OpSet, weights: Weights, hidden: Tensor) -> Tensor:
        """The head on chosen rows: [R, E] to [R, V]; a tied head is the embedding table."""
        return ops.linear(hidden, weights[EMBEDDING if self.dense.tie_word_embeddings else HEAD])

    def input_norm(self, layer: int) -> str:
        """Name of the parameter that rule 3's probe moves by one ulp."""
        return f"model.layers.{layer}.input_layernorm.weight"

    def frozen(self) -> dict[str, str]:
        """Nothing: every parameter of a dense decoder trains."""
        return {}

    def _layer(
        self,
        ops: OpSet,
        weights: Weights,
        batch: Batch,
        layer: int,
        rope: tuple[Tensor, Tensor],
        x: Tensor,
        residual: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """``x``, what the layer before adds to ``residual``, to what this one adds, and the residual sum before it."""
        at = f"model.layers.{layer}"
        normed, residual = self._norm(ops, x, residual, weights[self.input_norm(layer)])
        x = self._attention(ops, weights, batch, layer=layer, normed=normed, rope=rope)
        normed, residual = self._norm(ops, x, residual, weights[f"{at}.post_attention_layernorm.weight"])
        gate, up = ops.linears(normed, [weights[f"{at}.mlp.{name}.weight"] for name in ("gate_proj", "up_proj")])
        return ops.linear(ops.swiglu(gate, up), weights[f"{at}.mlp.down_proj.weight"]), residual

    def _norm(self, ops: OpSet, x: Tensor, residual: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The normed residual sum, and the sum; the embedding alone where nothing was added yet."""
        if residual is None:
            return ops.rms_norm(x, weight, self.dense.rms_norm_eps), x
        return ops.add_rms_norm(x, residual, weight, self.dense.rms_norm_eps)

    def _attention(
        self, ops: OpSet, weights: Weights, batch: Batch, *, layer: int, normed: Tensor, rope: tuple[Tensor, Tensor]
    ) -> Tensor:
        dense, at = self.dense, f"model.layers.{layer}.self_attn"
        products = ops.linears(normed, [weights[f"{at}.{name}.weight"] for name in ("q_proj", "k_proj", "v_proj")])
        query, key, value = (product.view(len(normed), -1, dense.head_dim) for product in products)
        if dense.qk_norm:
            query = ops.rms_norm(query, weights[f"{at}.q_norm.weight"], dense.rms_norm_eps)
            key = ops.rms_norm(key, weights[f"{at}.k_norm.weight"], dense.rms_norm_eps)
        query = ops.rope(query, *rope)
        batch.store(layer, KEYS, ops.rope(key, *rope))
        batch.store(layer, VALUES, value)
        mixed = ops.attention(query, batch, layer)
        return ops.linear(mixed.reshape(len(normed), -1), weights[f"{at}.o_proj.weight"])
