"""DeepSeek-V4 in structure, written once over an op set; structure checked against transformers' ``deepseek_v4``.

Dimensions: T packed tokens, n residual streams, W hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from samebits.models.ds4 import attention, experts, formats, hyper_connections
from samebits.models.ds4.config import parse_ds4
from samebits.models.ds4.step import Step
from samebits.models.ds4.tensors import COLLAPSE, EMBEDDING, FINAL_NORM, HEAD, SCALE, at, parameters
from samebits.models.family import Cache, Deployed, Weights
from samebits.ops import fp8
from samebits.ops.opset import Batch, OpSet


class DeepSeekV4:
    """A :class:`~samebits.models.family.Decoder` for ``model_type`` ``deepseek_v4``.

    Raises:
        InputError: ``config`` asks for something that this family does not compute.
    """

    def __init__(self, config: Mapping[str, Any], *, source: str = "config.json") -> None:
        self.config = config
        self.ds4 = parse_ds4(config, source=source)
        self.layers = self.ds4.num_hidden_layers
        self.vocab_size = self.ds4.vocab_size
        self.max_positions = self.ds4.max_position_embeddings
        self.ds4_parameters = parameters(self.ds4)

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each parameter."""
        return {name: parameter.shape for name, parameter in self.ds4_parameters.items()}

    def deployed(self, dtype: torch.dtype) -> dict[str, Deployed]:
        """Each parameter in its form; an FP8 one as values and scales."""
        form = self.ds4.fp8
        dtypes = {"fp8": dtype, "model": dtype, "fp32": torch.float32, "int64": torch.int64}
        found = {}
        for name, parameter in self.ds4_parameters.items():
            if parameter.form != "fp8" or form is None:
                found[name] = Deployed(parameter.shape, dtypes[parameter.form], name)
                continue
            *outer, rows, columns = parameter.shape
            blocks = (*outer, rows // form.block, columns // form.block)
            found[name] = Deployed(parameter.shape, fp8.E4M3, name)
            found[name + SCALE] = Deployed(blocks, form.scale_dtype, name)
        return found

    def deploy(self, weights: Weights) -> dict[str, Tensor]:
        """Quantises what is deployed in FP8; the rest as it is."""
        made: dict[str, Tensor] = {}
        for name, weight in weights.items():
            if self.ds4.fp8 is None or self.ds4_parameters[name].form != "fp8":
                made[name] = weight
            else:
                made[name], made[name + SCALE] = fp8.quantise_weight(weight, self.ds4.fp8)
        return made

    def parameters(self, tensors: Weights) -> dict[str, Tensor]:
        """FP8 ones dequantised to bf16, the dtype in which they train; the rest as they are."""
        form = self.ds4.fp8
        found = {}
        for name, parameter in self.ds4_parameters.items():
            if form is None or parameter.form != "fp8":
                found[name] = tensors[name]
            else:
                exact = fp8.dequantise_weight(tensors[name], tensors[name + SCALE], form)
                found[name] = exact.to(torch.bfloat16)
        return found

    def caches(self, layer: int) -> list[Cache]:
        """What ``layer`` keeps; see :func:`samebits.models.ds4.formats.caches`."""
        return formats.caches(self.ds4, layer)

    def hidden_states(self, ops: OpSet, weights: Weights, batch: Batch) -> Tensor:
        """All layers and the final norm over the packed tokens: [T, W] in the weights' dtype."""
        step = Step(self.ds4, ops, weights, batch)
        x = ops.embedding(batch.token_ids, weights[EMBEDDING])
        streams = x[:, None].expand(-1, self.ds4.hc_mult, -1)
        for layer in range(self.layers):
            into = hyper_connections.enter(step, streams, f"{at(layer)}.attn_hc")
            normed = step.norm(into.x, self.input_norm(layer)).to(x.dtype)
            streams = hyper_connections.leave(
                step, into, attention.attend(step, layer, normed, f"{at(layer)}.self_attn")
            )
            into = hyper_connections.enter(step, streams, f"{at(layer)}.ffn_hc")
            normed = step.norm(into.x, f"{at(layer)}.post_attention_layernorm.weight").to(x.dtype)
            streams = hyper_connections.leave(step, into, experts.mixture(step, layer, normed, f"{at(layer)}.mlp"))
        return step.norm(hyper_connections.collapse(step, streams, COLLAPSE), FINAL_NORM).to(x.dtype)

    def logits(self, ops: OpSet, weights: Weights, hidden: Tensor) -> Tensor:
        """The head on chosen rows, never quantised: [R, W] to [R, V]."""
        return ops.linear(hidden, weights[HEAD])

    def input_norm(self, layer: int) -> str:
        """Name of the parameter that rule 3's probe moves by one ulp."""
        return f"{at(layer)}.input_layernorm.weight"

    def frozen(self) -> dict[str, str]:
        """Indexers, hash tables and selection biases, each with the reason."""
        return {
            name: parameter.frozen for name, parameter in self.ds4_parameters.items() if parameter.frozen is not None
        }
