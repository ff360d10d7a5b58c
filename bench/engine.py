"""A decode step at SmolLM2-135M's shape against its floor, aligned and plain taking turns in one run.

``python bench/engine.py [--threads 2] [--sequences 8] [--layers 30] [--repeats 3]`` prints one JSON line.  The floor is
what row-invariance by fixed tiles cannot go below: the step's own matrix products, one tile of 32 rows each, as bare
``torch.mm``.  *bookkeeping* is the share of a step outside the model: scheduling, pages, sampling.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import torch

from samebits.engine.native import NativeEngine
from samebits.engine.native.forward import Forward
from samebits.engine.protocol import Request, WholeSequence
from samebits.models import open_decoder, save_folder
from samebits.recipe import CONFORMING
from samebits.recipe.model import NativeSettings

VOCABULARY, HIDDEN, INNER, KEYS = 49152, 576, 1536, 192
PROMPT, RESPONSE, KEY_SLOTS, ROWS = 48, 24, 128, 32


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


def write_model(folder: Path, layers: int) -> None:
    shapes = open_decoder(config(layers)).parameter_shapes()
    weights = {
        name: torch.ones(shape, dtype=torch.bfloat16) if len(shape) == 1 else (torch.randn(shape) * 0.03).bfloat16()
        for name, shape in shapes.items()
    }
    save_folder(folder, config(layers), weights)


def engine(folder: Path, op_set: str, sequences: int, threads: int) -> NativeEngine:
    settings = NativeSettings(
        max_model_len=KEY_SLOTS,
        max_num_seqs=sequences,
        max_num_batched_tokens=PROMPT * sequences,
        num_gpu_blocks=sequences * KEY_SLOTS // 16,
        threads=threads,
    ).model_dump()
    gate = {name: [] if value is None else [value] for name, value in settings.items()}
    return NativeEngine(folder, op_set=op_set, settings=settings, gate=gate)


def requests(sequences: int) -> list[Request]:
    return [
        Request(
            request_id=str(index),
            prompt_token_ids=torch.randint(0, VOCABULARY, (PROMPT,)).tolist(),
            max_tokens=RESPONSE,
            seed=index,
            stop_token_ids=[],
            sampling=dict(CONFORMING),
        )
        for index in range(sequences)
    ]


def products(layers: int) -> Callable[[], None]:
    """The matrix products of one tile of rows through the whole model, nothing around them."""
    shapes = [(HIDDEN, HIDDEN)] * 2 + [(KEYS, HIDDEN)] * 2 + [(INNER, HIDDEN)] * 2 + [(HIDDEN, INNER)]
    matrices = [torch.randn(shape).bfloat16() for _ in range(layers) for shape in shapes]
    matrices.append(torch.randn(VOCABULARY, HIDDEN).bfloat16())
    tiles = {width: torch.randn(ROWS, width).bfloat16() for width in (HIDDEN, INNER)}

    def run() -> None:
        for matrix in matrices:
            torch.mm(tiles[matrix.shape[1]], matrix.t())

    return run


class Stopwatch:
    """Seconds of each step, and how much of it the model took."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.model: list[float] = []
        self._inside = 0.0
        self._last = time.perf_counter()

    def timed(self, work: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object) -> object:
            start = time.perf_counter()
            result = work(*arguments)
            self._inside += time.perf_counter() - start
            return result

        return run

    def on_step(self, _: object) -> None:
        self.steps.append(time.perf_counter() - self._last)
        self.model.append(self._inside)
        self._inside, self._last = 0.0, time.perf_counter()


def decode(one: NativeEngine, sequences: int) -> tuple[float, float, list[WholeSequence]]:
    """Median seconds of a decode step and of the model inside it, and what was generated."""
    asked = requests(sequences)
    watch = Stopwatch()
    with ExitStack() as stack:
        for name in ("hidden", "logits", "patterns"):
            stack.enter_context(mock.patch.object(Forward, name, watch.timed(getattr(Forward, name))))
        generated = one.generate(asked, 0, watch.on_step)
    whole = [
        WholeSequence(token_ids=[*request.prompt_token_ids, *trajectory.token_ids], prompt_length=PROMPT)
        for request, trajectory in zip(asked, generated.trajectories, strict=True)
    ]
    return statistics.median(watch.steps[2:]), statistics.median(watch.model[2:]), whole


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        write_model(Path(name), options.layers)
        native, plain = (
            engine(Path(name), op_set, options.sequences, options.threads) for op_set in ("native", "plain")
        )
    mm = products(options.layers)
    rounds = []
    for _ in range(options.repeats + 1):
        step, model, whole = decode(native, options.sequences)
        other, _, _ = decode(plain, options.sequences)
        floor = statistics.median(seconds(mm) for _ in range(10))
        score = seconds(lambda whole=whole: native.score(whole, 0))
        rounds.append((step, model, other, floor, score))
    step, model, other, floor, score = (statistics.median(column) for column in zip(*rounds[1:], strict=True))
    line = {
        "benchmark": "engine",
        "threads": options.threads,
        "sequences": options.sequences,
        "decode_milliseconds": round(step * 1e3, 1),
        "tokens_per_second": round(options.sequences / step),
        "scored_tokens_per_second": round(options.sequences * (PROMPT + RESPONSE) / score),
        "step_over_products": round(step / floor, 2),
        "step_over_plain": round(step / other, 2),
        "bookkeeping": round(1 - model / step, 3),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
