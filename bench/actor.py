"""One policy update at SmolLM2-135M's shape, each phase against its floor, interleaved in one run.

``python bench/actor.py [--threads 2] [--layers 30] [--repeats 3]`` prints one JSON line.  Floors: for the recompute
its own matrix products as ``torch.mm`` on whole packs; for the training forward with its backward three times those
(forward, and a gradient to each side); for the step four fp32 copies of all parameters (masters, moments, gradients);
for the export writing the same bytes to the same folder.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from samebits.actor.actor import NativeActor
from samebits.actor.determinism import be_deterministic
from samebits.actor.protocol import Tokens
from samebits.models import open_decoder
from samebits.ops import open_op_set
from samebits.recipe import Actor

VOCABULARY, HIDDEN, INNER, KEYS = 49152, 576, 1536, 192
LENGTHS = [64, 96, 71, 83, 78, 90, 69, 88]
PROMPT = 32
PACK = 4


def config(layers: int) -> dict[str, object]:
    return {
        "model_type": "llama",
        "dtype": "bfloat16",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": layers,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "hidden_act": "silu",
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
    }


def trajectories() -> list[Tokens]:
    return [
        Tokens(
            request_id=str(index),
            token_ids=torch.randint(0, VOCABULARY, (length,)).tolist(),
            prompt_length=PROMPT,
            group=index // 4,
        )
        for index, length in enumerate(LENGTHS)
    ]


def products(layers: int) -> Callable[[], None]:
    """The matrix products of the recompute's forwards, nothing around them."""
    shapes = [(HIDDEN, HIDDEN)] * 2 + [(KEYS, HIDDEN)] * 2 + [(INNER, HIDDEN)] * 2 + [(HIDDEN, INNER)]
    matrices = [torch.randn(shape).bfloat16() for _ in range(layers) for shape in shapes]
    head = torch.randn(VOCABULARY, HIDDEN).bfloat16()
    packs = [LENGTHS[first : first + PACK] for first in range(0, len(LENGTHS), PACK)]

    def run() -> None:
        for pack in packs:
            for matrix in matrices:
                torch.mm(torch.ones(sum(pack), matrix.shape[1], dtype=torch.bfloat16), matrix.t())
            torch.mm(torch.ones(sum(pack) - PROMPT * len(pack), HIDDEN, dtype=torch.bfloat16), head.t())

    return run


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    be_deterministic(options.threads)
    torch.manual_seed(0)
    decoder = open_decoder(config(options.layers))
    weights = {
        name: torch.ones(shape, dtype=torch.bfloat16) if len(shape) == 1 else (torch.randn(shape) * 0.02).bfloat16()
        for name, shape in decoder.parameter_shapes().items()
    }
    parameters = sum(weight.numel() for weight in weights.values())
    settings = Actor(learning_rate=1e-5, recompute_pack=PACK, train_pack=PACK + 1, threads=options.threads)
    actor = NativeActor(decoder, weights, open_op_set("native"), settings, 128)
    del weights
    mm = products(options.layers)
    source, target = torch.ones(parameters), torch.empty(parameters)
    rewards = [float(index % 3 == 0) for index in range(len(LENGTHS))]

    def update(version: int, folder: Path) -> dict[str, float]:
        tokens, path = trajectories(), folder / "policy.safetensors"
        took = {
            "products": seconds(mm),
            "recompute": seconds(lambda: actor.recompute(tokens, version)),
            "train": seconds(lambda: actor.train_forward(tokens, rewards, version)),
            "step": seconds(lambda: actor.step(version)),
            "copy": seconds(lambda: [target.copy_(source) for _ in range(4)]),
            "export": seconds(lambda: actor.export(path, version + 1)),
        }
        data = path.read_bytes()
        return took | {"write": seconds(lambda: (folder / "plain").write_bytes(data))}

    with tempfile.TemporaryDirectory() as folder:
        update(0, Path(folder))  # pays for fresh memory
        rounds = [update(version, Path(folder)) for version in range(1, options.repeats + 1)]
    median = {phase: statistics.median(took[phase] for took in rounds) for phase in rounds[0]}
    line = {
        "benchmark": "actor",
        "threads": options.threads,
        "parameters": parameters,
        "tokens": sum(LENGTHS),
        "seconds": {phase: round(median[phase], 3) for phase in ("recompute", "train", "step", "export")},
        "recompute_over_products": round(median["recompute"] / median["products"], 2),
        "train_over_three_products": round(median["train"] / (3 * median["products"]), 2),
        "step_over_copies": round(median["step"] / median["copy"], 2),
        "export_over_write": round(median["export"] / median["write"], 2),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
