"""A :class:`Primitives` in ordinary torch, in place of an engine: what surrounds the borrowed operations is tested."""

from __future__ import annotations

import itertools

import torch
from torch.nn.functional import linear, scaled_dot_product_attention

from samebits.ops.borrowed import Borrowed
from samebits.ops.precision import wide


class TorchPrimitives:
    def __init__(self):
        self.device = torch.device("cpu")
        self.calls = []

    def describe(self):
        return {"attention": "torch", "linear": "torch", "log_softmax": "torch"}

    def linear(self, x, weights):
        self.calls.append(("linear", len(weights)))
        return linear(x, torch.cat(list(weights)))

    def attention(self, query, keys, values, starts):
        self.calls.append(("attention", tuple(starts)))
        parts = []
        for start, end in itertools.pairwise(starts):
            q, k, v = (x[start:end].transpose(0, 1)[None] for x in (query, keys, values))
            parts.append(scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)[0].transpose(0, 1))
        return torch.cat(parts)

    def token_logprobs(self, logits, token_ids):
        self.calls.append(("token_logprobs", len(logits)))
        rows = torch.log_softmax(logits.to(wide(logits.dtype)), dim=-1)
        return rows.gather(-1, token_ids[:, None]).squeeze(-1)


def borrowed():
    return Borrowed("torch", TorchPrimitives())
