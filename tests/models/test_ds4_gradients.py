"""The backward of the whole model, custom parts and all, against differences in float64."""

from __future__ import annotations

import pytest
import torch

from models.ds4_small import SMALL, draw
from samebits.actor.packed_batch import PackedBatch
from samebits.models.ds4 import DeepSeekV4
from samebits.ops import open_op_set

CONFIG = {
    **SMALL,
    "vocab_size": 32,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "head_dim": 16,
    "qk_rope_head_dim": 8,
    "q_lora_rank": 16,
    "o_lora_rank": 16,
    "sliding_window": 6,
    "compress_ratios": [0, 4, 8],
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_topk": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "hc_sinkhorn_iters": 5,
}
STEP = 1e-5


@pytest.fixture(autouse=True)
def one_thread():
    """Hundreds of tiny forwards: a second thread only waits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_every_trained_parameter_against_differences():
    decoder, ops = DeepSeekV4(CONFIG), open_op_set("native")
    weights = {
        name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in draw(decoder).items()
    }
    trained = [name for name in weights if name not in decoder.frozen()]
    generator = torch.Generator().manual_seed(4)
    token_ids = torch.randint(0, 32, (24,), generator=generator).tolist()

    def loss():
        batch = PackedBatch([token_ids, token_ids[:9]], 32)
        logits = decoder.logits(ops, weights, decoder.hidden_states(ops, weights, batch))
        return ops.token_logprobs(logits, batch.token_ids.roll(-1)).sum()

    for name in trained:
        weights[name].requires_grad_()
    loss().backward()
    with torch.no_grad():
        for name in trained:
            direction = torch.randn(weights[name].shape, generator=generator, dtype=torch.float64)
            direction /= direction.norm()
            slope = (weights[name].grad * direction).sum()
            weights[name] += STEP * direction
            ahead = loss()
            weights[name] -= 2 * STEP * direction
            slope_found = (ahead - loss()) / (2 * STEP)
            weights[name] += STEP * direction
            torch.testing.assert_close(slope, slope_found, rtol=1e-3, atol=1e-4, msg=name)
