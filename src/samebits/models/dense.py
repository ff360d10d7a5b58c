"""The dense decoder of Llama and Qwen3, written once over an op set.

Llama: Touvron et al., arXiv:2302.13971; grouped heads: Ainslie et al., arXiv:2305.13245; per-head RMS norm of queries
and keys before rope: Qwen3, arXiv:2505.09388.  Checked against transformers' ``LlamaForCausalLM`` and
``Qwen3ForCausalLM`` (tests/models).

Dimensions: T packed tokens, H query heads, G key/value heads, D head size, E hidden size, F intermediate size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from samebits.models.config import parse_dense
from samebits.models.family import Cache, Deployed, Weights, plain_deployment
from samebits.models.rope import rope_tables
from samebits.ops.opset import Batch, OpSet

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
        return [Cache(name="k", row_shape=row), Cache(name="v", row_shape=row)]

    def hidden_states(self, ops: OpSet, weights: Weights, batch: Batch) -> Tensor:
        """All layers and the final norm over the packed tokens: [T, E] in the weights' dtype."""
        x = ops.embedding(batch.token_ids, weights[EMBEDDING])
        rope = self._rope(batch.positions)
        for layer in range(self.layers):
            x = ops.add(x, self._attention(ops, weights, batch, layer=layer, x=x, rope=rope))
            x = ops.add(x, self._mlp(ops, weights, layer=layer, x=x))
        return ops.rms_norm(x, weights[FINAL_NORM], self.dense.rms_norm_eps)

    def logits(self, ops: OpSet, weights: Weights, hidden: Tensor) -> Tensor:
        """The head on chosen rows: [R, E] to [R, V]; a tied head is the embedding table."""
        return ops.linear(hidden, weights[EMBEDDING if self.dense.tie_word_embeddings else HEAD])

    def input_norm(self, layer: int) -> str:
        """Name of the parameter that rule 3's probe moves by one ulp."""
        return f"model.layers.{layer}.input_layernorm.weight"

    def frozen(self) -> dict[str, str]:
        """Nothing: every parameter of a dense decoder trains."""
        return {}

    def _rope(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """fp32 [T, D/2] twice."""
        cos, sin = rope_tables(self.max_positions, self.dense.head_dim, self.dense.rope_theta, positions.device)
        return cos[positions], sin[positions]

    def _attention(
        self, ops: OpSet, weights: Weights, batch: Batch, *, layer: int, x: Tensor, rope: tuple[Tensor, Tensor]
    ) -> Tensor:
        dense, at = self.dense, f"model.layers.{layer}.self_attn"
        tokens = x.shape[0]
        normed = ops.rms_norm(x, weights[self.input_norm(layer)], dense.rms_norm_eps)

        def heads(name: str, count: int) -> Tensor:
            return ops.linear(normed, weights[f"{at}.{name}.weight"]).view(tokens, count, dense.head_dim)

        query = heads("q_proj", dense.num_attention_heads)
        key = heads("k_proj", dense.num_key_value_heads)
        value = heads("v_proj", dense.num_key_value_heads)
        if dense.qk_norm:
            query = ops.rms_norm(query, weights[f"{at}.q_norm.weight"], dense.rms_norm_eps)
            key = ops.rms_norm(key, weights[f"{at}.k_norm.weight"], dense.rms_norm_eps)
        query = ops.rope(query, *rope)
        batch.store(layer, "k", ops.rope(key, *rope))
        batch.store(layer, "v", value)
        mixed = ops.attention(query, batch.gather(layer, "k"), batch.gather(layer, "v"), batch)
        return ops.linear(mixed.reshape(tokens, -1), weights[f"{at}.o_proj.weight"])

    def _mlp(self, ops: OpSet, weights: Weights, *, layer: int, x: Tensor) -> Tensor:
        at = f"model.layers.{layer}"
        normed = ops.rms_norm(x, weights[f"{at}.post_attention_layernorm.weight"], self.dense.rms_norm_eps)
        gate = ops.linear(normed, weights[f"{at}.mlp.gate_proj.weight"])
        up = ops.linear(normed, weights[f"{at}.mlp.up_proj.weight"])
        return ops.linear(ops.swiglu(gate, up), weights[f"{at}.mlp.down_proj.weight"])
