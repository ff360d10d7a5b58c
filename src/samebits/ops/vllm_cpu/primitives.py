"""The kernels of vLLM's CPU backend, called as its layers call them (vLLM 0.32.0).

- linear: ``model_executor/layers/utils.py`` (``dispatch_cpu_unquantized_gemm``): one oneDNN handler per packed weight.
- attention: ``v1/attention/backends/cpu_attn.py``: keys and values go through one temporary paged cache.
- log-softmax: ``v1/sample/sampler.py`` (``compute_logprobs``), in fp32 over whole rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

BLOCK: Final = 32
"""Rows of a block of the temporary cache.  A multiple of 32, as the engine's must be: others take another kernel."""

PRIMITIVES: Final = 32
"""Shapes for which a handler keeps its compiled primitive, as in the engine."""


class CpuPrimitives:
    """A :class:`~samebits.ops.borrowed.Primitives` over an imported vLLM."""

    def __init__(self, vllm: Any, *, attention_split_kv: bool) -> None:
        """``vllm`` has the modules ``custom_ops`` and ``cpu_attn``; see ``opening``."""
        self.device = torch.device("cpu")
        self._vllm = vllm
        self._split = attention_split_kv
        self._handlers: Any = WeakIdKeyDictionary()

    def describe(self) -> dict[str, str]:
        """What decides bits."""
        return {
            "attention": f"vLLM's cpu_attention_with_kv_cache, blocks of {BLOCK}, "
            + ("keys split between threads" if self._split else "one thread for each query tile"),
            "linear": "vLLM's onednn_mm, q/k/v and gate/up fused",
            "log_softmax": "torch, float32 over the whole row",
        }

    def linear(self, x: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """See ``Primitives.linear``."""
        result: Tensor = self._vllm.custom_ops.onednn_mm(self._handler(weights), x, None)
        return result

    def attention(self, query: Tensor, keys: Tensor, values: Tensor, starts: Sequence[int]) -> Tensor:
        """See ``Primitives.attention``."""
        ops = self._vllm.custom_ops
        heads, size = query.shape[1:]
        groups = keys.shape[1]
        ends = torch.tensor(starts, dtype=torch.int32)
        lengths = ends.diff()
        blocks = (lengths + BLOCK - 1) // BLOCK
        first = blocks.cumsum(0) - blocks
        table = first[:, None].int() + torch.arange(int(blocks.max()), dtype=torch.int32)
        cache = query.new_zeros((int(blocks.sum()), groups, 2 * BLOCK, size))
        key_cache, value_cache = cache.chunk(2, dim=2)
        sequences = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        slots = torch.arange(len(query)) + (first * BLOCK - ends[:-1])[sequences]
        isa = self._vllm.cpu_attn._get_attn_isa(query.dtype, BLOCK, size, "auto")  # noqa: SLF001  # the engine's own choice
        plan = ops.cpu_attn_get_scheduler_metadata(
            num_reqs=len(lengths),
            num_heads=heads,
            num_kv_heads=groups,
            head_dim=size,
            seq_lens=lengths,
            dtype=query.dtype,
            query_start_loc=ends,
            causal=True,
            sliding_window_size=-1,
            isa=isa,
            enable_kv_split=self._split,
        )
        ops.cpu_attn_reshape_and_cache(keys, values, key_cache, value_cache, slots, isa)
        out = torch.empty_like(query, memory_format=torch.contiguous_format)
        ops.cpu_attention_with_kv_cache(
            query=query,
            key_cache=key_cache,
            value_cache=value_cache,
            output=out,
            query_start_loc=ends,
            seq_lens=lengths,
            scale=size**-0.5,
            causal=True,
            alibi_slopes=None,
            sliding_window=-1,
            block_table=table,
            softcap=0,
            scheduler_metadata=plan,
            s_aux=None,
        )
        return out

    def token_logprobs(self, logits: Tensor, token_ids: Tensor) -> Tensor:
        """See ``Primitives.token_logprobs``."""
        rows = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
        return rows.gather(-1, token_ids[:, None]).squeeze(-1)

    def _handler(self, weights: Sequence[Tensor]) -> Any:
        """The packed copy that oneDNN multiplies by, made anew when one of the weights has been written to."""
        versions = [weight._version for weight in weights]  # noqa: SLF001  # torch has no public name for it
        kept = self._handlers.get(weights[0])
        if kept is None or kept.versions != versions or not _same(kept.others, weights[1:]):
            stacked = weights[0] if len(weights) == 1 else torch.cat(list(weights))
            made = self._vllm.custom_ops.create_onednn_mm(stacked.detach().t(), PRIMITIVES)
            kept = self._handlers[weights[0]] = _Packed(versions, list(weights[1:]), made)
        return kept.handler


class _Packed(NamedTuple):
    versions: list[int]
    others: list[Tensor]
    """The weights below the first, by which this entry is found."""
    handler: Any


def _same(left: Sequence[Tensor], right: Sequence[Tensor]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))
