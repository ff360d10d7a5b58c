"""The kernels of vLLM's CUDA build, called as its layers call them (vLLM 0.26.0).

- linear: ``model_executor/layers/linear.py`` (``UnquantizedLinearMethod.apply``) and ``vocab_parallel_embedding.py``:
  ``linear_batch_invariant``, a Triton kernel of one tile shape; without the flag ``torch.nn.functional.linear``.
- attention: ``v1/attention/backends/flash_attn.py``: FlashAttention 3 with one split of the keys.  The engine reads
  them from pages; without pages the same kernel gives the same bits (measured on an H200).
- log-softmax: ``v1/worker/gpu/sample/logprob.py`` (``compute_token_logprobs``), the model runner V2's own kernel, on
  logits in the model's dtype: cast to fp32 first, it differs by one ulp in 6 to 50 tokens of 100.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch import Tensor
from torch.nn import functional


class CudaPrimitives:
    """A :class:`~samebits.ops.borrowed.Primitives` over an imported vLLM."""

    def __init__(self, vllm: SimpleNamespace, device: torch.device, *, batch_invariant: bool) -> None:
        """``vllm`` has ``linear_batch_invariant``, ``flash_attn_varlen_func`` and ``compute_token_logprobs``."""
        self.device = device
        self._vllm = vllm
        self._batch_invariant = batch_invariant
        self._linear = vllm.linear_batch_invariant if batch_invariant else functional.linear
        self._splits = 1 if batch_invariant else 0

    def describe(self) -> dict[str, str]:
        """What decides bits."""
        return {
            "attention": "vLLM's FlashAttention 3, varlen, "
            + ("one split of the keys" if self._batch_invariant else "splits by its own heuristic"),
            "linear": ("vLLM's linear_batch_invariant" if self._batch_invariant else "torch.nn.functional.linear")
            + ", q/k/v and gate/up fused",
            "log_softmax": "vLLM's compute_token_logprobs on logits in the model's dtype",
            "aten": "mean, softmax, log_softmax and bmm overridden by vLLM" if self._batch_invariant else "torch's own",
        }

    def linear(self, x: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """See ``Primitives.linear``."""
        result: Tensor = self._linear(x, weights[0] if len(weights) == 1 else torch.cat(list(weights)))
        return result

    def attention(self, query: Tensor, keys: Tensor, values: Tensor, starts: Sequence[int]) -> Tensor:
        """See ``Primitives.attention``."""
        ends = _on_device(tuple(starts), self.device)
        longest = max(end - start for start, end in itertools.pairwise(starts))
        result: Tensor = self._vllm.flash_attn_varlen_func(
            q=query.contiguous(),
            k=keys.contiguous(),
            v=values.contiguous(),
            cu_seqlens_q=ends,
            cu_seqlens_k=ends,
            max_seqlen_q=longest,
            max_seqlen_k=longest,
            softmax_scale=query.shape[-1] ** -0.5,
            causal=True,
            fa_version=3,
            num_splits=self._splits,
        )
        return result

    def token_logprobs(self, logits: Tensor, token_ids: Tensor) -> Tensor:
        """See ``Primitives.token_logprobs``."""
        result: Tensor = self._vllm.compute_token_logprobs(logits, token_ids[:, None])
        return result[:, 0]


@functools.lru_cache(maxsize=4)
def _on_device(starts: tuple[int, ...], device: torch.device) -> Tensor:
    """int32, kept between the layers of a forward: each copy to a GPU waits for it."""
    return torch.tensor(starts, dtype=torch.int32, device=device)
