"""Op set ``vllm`` on a GPU, in the environment that holds vLLM's CUDA build:

    PYTHONPATH=src:~/vllm python -m pytest tests/ops/test_vllm_gpu.py

The engine runs in a process of its own, as in a certification; the actor is this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ops.borrowed import TorchPrimitives
from ops.dense import OPS, TOLERANCE, arguments, attention, check_against_float64, relative
from ops.rows import normal, same_bits
from samebits.actor.actor import NativeActor
from samebits.actor.determinism import be_deterministic
from samebits.actor.protocol import Tokens
from samebits.bits import to_float32
from samebits.models import open_decoder, open_folder, save_folder, seeded_config, seeded_weights
from samebits.ops import open_op_set
from samebits.ops.borrowed.gradients import Attention
from samebits.recipe.model import Actor, DenseShape, Model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="not run: no GPU"),
    pytest.mark.filterwarnings("ignore"),  # vLLM's own
]

HERE = Path(__file__).parent
BF16 = torch.bfloat16
MAX_LEN = 2048
ENGINE = {
    "max_model_len": MAX_LEN,
    "max_num_seqs": 64,
    "gpu_memory_utilization": 0.3,
    "attention_backend": "FLASH_ATTN",
    "compilation_config": {"mode": 0, "custom_ops": ["none"], "cudagraph_mode": "FULL"},
    "kernel_config": {"ir_op_priority": {"rms_norm": ["native"], "fused_add_rms_norm": ["native"]}},
}
MODEL = Model(
    family="dense",
    source="seeded",
    seed=1,
    dtype="bfloat16",
    shape=DenseShape(
        vocab_size=32_000,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        qk_norm=True,
        rope_theta=1e6,
        initializer_range=0.04,
        lm_head_std=0.08,
    ),
)


@pytest.fixture(scope="module")
def ops():
    found = open_op_set("vllm", {"batch_invariant": True})
    be_deterministic(4)
    yield found
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_folder(path, seeded_config(MODEL), seeded_weights(MODEL))
    return path


@pytest.mark.parametrize("op", OPS)
def test_values_and_gradients_are_near_float64(ops, op):
    check_against_float64(ops, op, BF16)


def test_attention_backward_at_length(ops):
    """Sequences and heads as they are trained, against fp32 in ordinary torch on the CPU."""
    starts = [0, 1500, 1503, 2203]
    exact = [
        normal(2203, heads, 128, dtype=BF16, seed=seed).float().requires_grad_()
        for seed, heads in enumerate((16, 8, 8))
    ]
    given = [x.detach().to("cuda", BF16).requires_grad_() for x in exact]
    direction = normal(2203, 16, 128, dtype=BF16, seed=9)
    found = Attention.apply(ops.primitives, *given, starts)
    gradients = torch.autograd.grad(found, given, direction.cuda())
    expected = TorchPrimitives().attention(*exact, starts)
    assert relative(found, expected.double()) <= TOLERANCE[BF16]
    for gradient, right in zip(gradients, torch.autograd.grad(expected, exact, direction.float()), strict=True):
        assert relative(gradient, right.double()) <= 2 * TOLERANCE[BF16]


def test_rows_do_not_see_each_other(ops):
    x = normal(300, 1024, dtype=BF16, seed=1).cuda()
    weights = [normal(n, 1024, dtype=BF16, seed=n, scale=1 / 32).cuda() for n in (2048, 1024)]
    whole = ops.linears(x, weights)
    for count in (1, 7, 64, 129):
        assert all(same_bits(a, b[:count]) for a, b in zip(ops.linears(x[:count], weights), whole, strict=True))
    fused = ops.linears(x, weights)
    assert all(same_bits(ops.linear(x, weight), part) for weight, part in zip(weights, fused, strict=True))
    logits = normal(300, 32_000, dtype=BF16, seed=2, scale=3).cuda()
    ids = torch.arange(300, device="cuda") * 97 % 32_000
    assert same_bits(ops.token_logprobs(logits[:5], ids[:5]), ops.token_logprobs(logits, ids)[:5])
    residual, norm = normal(300, 1024, dtype=BF16, seed=4).cuda(), normal(1024, dtype=BF16, seed=5).cuda()
    alone, beside = (ops.add_rms_norm(x[:n], residual[:n], norm, 1e-6)[0] for n in (1, 300))
    assert same_bits(alone, beside[:1])


def test_attention_is_repeated_by_its_bits(ops):
    given = [x.detach() for x in arguments("attention", BF16, "cuda")]
    assert same_bits(attention(ops, *given), attention(ops, *given))


def rollout(model, tmp_path, seed):
    """The real engine's, in a process of its own that has left the GPU when this returns."""
    asked, out = tmp_path / f"asked{seed}.json", tmp_path / f"rows{seed}.json"
    request = {"model": str(model), "out": str(out), "engine": ENGINE, "seed": seed}
    asked.write_text(json.dumps({**request, "sequences": 48, "prompt_tokens": 400, "response_tokens": 160}))
    variables = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_BATCH_INVARIANT": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "VLLM_USE_V2_MODEL_RUNNER": "1",
    }
    subprocess.run([sys.executable, HERE / "vllm" / "rollout.py", asked], env={**os.environ, **variables}, check=True)
    return json.loads(out.read_text())


def different(left, right):
    """Tokens whose patterns differ, and by how much at most."""
    pairs = [pair for rows in zip(left, right, strict=True) for pair in zip(*rows, strict=True)]
    values = to_float32(torch.tensor(pairs, dtype=torch.int64).numpy())
    return sum(a != b for a, b in pairs), float(abs(values[:, 0] - values[:, 1]).max())


@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "computed again"])
def test_rollout_recompute_and_training_forward_have_the_same_bits(ops, folder, tmp_path, checkpointing):
    """On the initial weights, and again on those that a step made of them."""
    settings = {"learning_rate": 1e-4, "recompute_pack": 8, "train_pack": 16, "threads": 4}
    decoder, weights = open_folder(folder, device=ops.device)
    asked = Actor(**settings, activation_checkpointing=checkpointing)
    actor = NativeActor(decoder, weights, ops, asked, MAX_LEN)
    model = folder
    for version in range(2):
        rows = rollout(model, tmp_path, version)
        trajectories = [
            Tokens(
                request_id=str(i),
                token_ids=row["prompt"] + row["tokens"],
                prompt_length=len(row["prompt"]),
                group=i // 4,
            )
            for i, row in enumerate(rows)
        ]
        recompute = actor.reveal(actor.recompute(trajectories, version).sealed.commitment)
        rewards = [float(i % 4 == 0) for i in range(len(rows))]
        train = actor.reveal(actor.train_forward(trajectories, rewards, version).sealed.commitment)
        assert different([row["bits"] for row in rows], recompute) == (0, 0.0)
        assert different(recompute, train) == (0, 0.0)
        assert actor.step(version).off_policy_tokens == 0
        model = tmp_path / f"version{version + 1}"
        model.mkdir()
        (model / "config.json").write_bytes((folder / "config.json").read_bytes())
        actor.export(model / "model.safetensors", version + 1)


def test_four_billion_parameters_train_beside_an_engine(ops):
    """The largest shape of the row: 64 sequences of 1,000 to 2,500 tokens, with 30 GB and more left for the engine."""
    shape = DenseShape(
        vocab_size=151_936,
        hidden_size=2560,
        intermediate_size=9728,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        qk_norm=True,
        rope_theta=1e6,
        tie_word_embeddings=True,
    )
    decoder = open_decoder(seeded_config(MODEL.model_copy(update={"shape": shape})))
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    draw = torch.Generator("cuda").manual_seed(0)
    weights = {
        name: torch.ones(size, dtype=BF16, device="cuda")
        if len(size) == 1
        else torch.randn(size, dtype=BF16, device="cuda", generator=draw) * 0.02
        for name, size in decoder.parameter_shapes().items()
    }
    asked = Actor(learning_rate=1e-5, recompute_pack=16, train_pack=8, threads=8, activation_checkpointing=True)
    actor = NativeActor(decoder, weights, ops, asked, 2560)
    del weights
    lengths = [1000 + 1500 * i // 63 for i in range(64)]
    ids = torch.randint(shape.vocab_size, (sum(lengths),), generator=torch.Generator().manual_seed(0))
    trajectories = [
        Tokens(request_id=str(i), token_ids=part.tolist(), prompt_length=len(part) - 512, group=i // 4)
        for i, part in enumerate(torch.split(ids, lengths))
    ]
    recompute = actor.recompute(trajectories, 0).sealed
    train = actor.train_forward(trajectories, [float(i % 4 == 0) for i in range(64)], 0).sealed
    stepped = actor.step(0)
    peak = torch.cuda.max_memory_allocated()
    seconds = {"recompute": recompute.seconds, "train": train.seconds, "step": stepped.seconds}
    print(seconds, f"peak {peak / 1e9:.1f} GB")  # noqa: T201 - shown by -s: what a person wants to know of it
    assert recompute.tokens == 64 * 512
    assert recompute.commitment == train.commitment
    assert stepped.off_policy_tokens == 0
    assert peak < 105 * 10**9
