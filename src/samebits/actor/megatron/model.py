"""Megatron's ``GPTModel``, built from a layer specification of the kit's modules.

Checked against the sources of megatron-core 0.16.1 and 0.19.2.  The only file besides ``library`` that imports
Megatron: import it once ``library.require`` has returned.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from megatron.core.models.gpt import GPTModel
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.transformer.attention import SelfAttention, SelfAttentionSubmodules
from megatron.core.transformer.enums import AttnMaskType
from megatron.core.transformer.mlp import MLP, MLPSubmodules
from megatron.core.transformer.spec_utils import ModuleSpec
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron.core.transformer.transformer_layer import TransformerLayer, TransformerLayerSubmodules
from torch import Tensor
from torch.nn import functional

from samebits.actor.megatron import library, mapping, modules
from samebits.actor.megatron.modules import Running
from samebits.actor.packed_batch import PackedBatch
from samebits.models.config import DenseConfig


class Layer(TransformerLayer):  # type: ignore[misc]  # Megatron publishes no types
    """Megatron's layer; a training batch may drop its activations and compute them again (``Batch.run_layer``)."""

    def __init__(self, *arguments: Any, running: Running, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._running = running

    def forward(self, hidden_states: Tensor, **options: Any) -> tuple[Tensor, None]:
        """What the layer before adds to the residual sum, to what this one adds; the sum goes along."""
        running = self._running
        batch, rope = running.batch, running.rope
        if batch is None:
            raise RuntimeError("no forward is running")

        def compute(added: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor | None]:
            # In a backward, where the layer is computed again, this forward is over: its state comes back.
            running.batch, running.rope = batch, rope
            running.residual, running.handed = residual, added.data_ptr()
            added, _ = super(Layer, self).forward(hidden_states=added, **options)
            return added, running.residual

        added, running.residual = batch.run_layer(compute, hidden_states, running.residual)
        running.handed = added.data_ptr()
        return added, None


def build(dense: DenseConfig, dtype: torch.dtype, running: Running) -> Any:
    """A ``GPTModel`` of one process whose parameters hold nothing yet."""
    # On the meta device nothing costs memory: what Megatron itself allocates is replaced, the rest is loaded later.
    with library.quiet(), torch.device("meta"):
        model = GPTModel(
            config=configuration(dense, dtype),
            transformer_layer_spec=_specification(dense, running),
            vocab_size=dense.vocab_size,
            max_sequence_length=dense.max_position_embeddings,
            position_embedding_type="none",  # rope is in the attention module
            share_embeddings_and_output_weights=dense.tie_word_embeddings,
        )
        model.embedding.word_embeddings = modules.Embedding(
            dense.vocab_size, dense.hidden_size, dtype=dtype, running=running
        )
        model.output_layer = modules.Head(
            dense.vocab_size, dense.hidden_size, dtype=dtype, tied=dense.tie_word_embeddings, running=running
        )
    return model


def configuration(dense: DenseConfig, dtype: torch.dtype, **options: Any) -> TransformerConfig:
    """Megatron's configuration of a dense Llama/Qwen3 decoder: one process, no dropout, no bias, nothing fused."""
    return TransformerConfig(
        num_layers=dense.num_hidden_layers,
        hidden_size=dense.hidden_size,
        num_attention_heads=dense.num_attention_heads,
        num_query_groups=dense.num_key_value_heads,
        kv_channels=dense.head_dim,
        ffn_hidden_size=dense.intermediate_size,
        layernorm_epsilon=dense.rms_norm_eps,
        qk_layernorm=dense.qk_norm,
        normalization="RMSNorm",
        gated_linear_unit=True,
        activation_func=functional.silu,
        use_te_activation_func=True,  # "the specification brings its own activation module", whoever wrote it
        add_bias_linear=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        gradient_accumulation_fusion=False,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        bf16=dtype == torch.bfloat16,
        use_cpu_initialization=True,
        perform_initialization=False,
        **options,
    )


def packed(batch: PackedBatch) -> PackedSeqParams:
    """Megatron's description of the packed sequences."""
    starts = torch.tensor(batch.starts, dtype=torch.int32, device=batch.token_ids.device)
    longest = max(end - start for start, end in zip(batch.starts[:-1], batch.starts[1:], strict=True))
    return PackedSeqParams(
        qkv_format="thd", cu_seqlens_q=starts, cu_seqlens_kv=starts, max_seqlen_q=longest, max_seqlen_kv=longest
    )


def _specification(dense: DenseConfig, running: Running) -> TransformerBlockSubmodules:
    def ours(module: type, **parameters: Any) -> ModuleSpec:
        return ModuleSpec(module=module, params={"running": running, **parameters})

    head_norm = ours(modules.HeadNorm) if dense.qk_norm else None
    layer = ModuleSpec(
        module=Layer,
        params={"running": running},
        submodules=TransformerLayerSubmodules(
            input_layernorm=ours(modules.Norm),
            self_attention=ModuleSpec(
                module=SelfAttention,
                params={"attn_mask_type": AttnMaskType.causal},
                submodules=SelfAttentionSubmodules(
                    linear_qkv=ours(modules.FusedLinear, blocks=mapping.qkv_blocks(dense)),
                    core_attention=ours(modules.CoreAttention),
                    linear_proj=ours(modules.Linear),
                    q_layernorm=head_norm,
                    k_layernorm=head_norm,
                ),
            ),
            self_attn_bda=ours(modules.Handover),
            pre_mlp_layernorm=ours(modules.Norm),
            mlp=_mlp(
                MLPSubmodules(
                    linear_fc1=ours(modules.FusedLinear, blocks=mapping.gate_up_blocks(dense)),
                    activation_func=ours(modules.SwiGLU),
                    linear_fc2=ours(modules.Linear),
                )
            ),
            mlp_bda=ours(modules.Handover),
        ),
    )
    return TransformerBlockSubmodules(layer_specs=[layer] * dense.num_hidden_layers, layer_norm=ours(modules.Norm))


def _mlp(submodules: MLPSubmodules) -> Any:
    """Release 0.19 takes a function that builds; before, a specification."""
    builder = getattr(MLP, "as_mlp_submodule", None)
    return ModuleSpec(module=MLP, submodules=submodules) if builder is None else partial(builder, submodules=submodules)
