"""Megatron on the engine's CUDA primitives, in an environment that holds vLLM and Megatron-core:

PYTHONPATH=src:tests:~/vllm:~/megatron python -m pytest tests/actor_megatron/test_gpu.py
"""

from __future__ import annotations

import pytest
import torch

from actor import tiny
from actor.tiny import REWARDS
from samebits.ops import open_op_set

from .worlds import megatron, native

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.megatron,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="not run: no GPU"),
    pytest.mark.filterwarnings("ignore"),  # vLLM's own
]

SHAPE = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "head_dim": 128,
    "num_hidden_layers": 4,
    "initializer_range": 0.05,
}


@pytest.fixture(scope="module")
def ops():
    return open_op_set("vllm")


@pytest.mark.parametrize("qk_norm", [True, False])
def test_three_rounds_have_the_reference_actors_bits(ops, qk_norm, tmp_path):
    model, trajectories = tiny.model(**SHAPE, qk_norm=qk_norm), tiny.trajectories()
    ours, reference = (actor(model, ops, max_grad_norm=1e6) for actor in (megatron, native))
    for version in range(3):
        sides = []
        for actor in (ours, reference):
            recomputed = actor.recompute(trajectories, version).sealed.commitment
            trained = actor.train_forward(trajectories, REWARDS, version).sealed.commitment
            actor.step(version)
            sides.append((recomputed, trained, actor.export(tmp_path / "w.safetensors", version + 1).deployed))
        assert sides[0] == sides[1]
        assert sides[0][0] == sides[0][1]
