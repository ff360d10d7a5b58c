"""A tiny seeded model, engines on it, and crowds of requests for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samebits.engine.native import NativeEngine
from samebits.engine.protocol import Generated, Request, WholeSequence
from samebits.recipe import CONFORMING
from samebits.recipe.model import DenseShape, Model, NativeSettings

VOCAB = 96

MODEL = Model(
    family="dense",
    source="seeded",
    seed=3,
    shape=DenseShape(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        qk_norm=True,
        initializer_range=0.1,
        lm_head_std=0.3,  # logits with a standard deviation of about 2.4
    ),
)


def settings(**changed: Any) -> dict[str, Any]:
    """Settings roomy enough that nothing waits: a test narrows what it is about."""
    roomy = NativeSettings(
        max_model_len=64, max_num_seqs=16, max_num_batched_tokens=256, block_size=8, num_gpu_blocks=128, threads=1
    )
    return {**roomy.model_dump(), **changed}


def gate_for(given: dict[str, Any]) -> dict[str, Any]:
    """A row's table that accepts exactly ``given``."""
    return {name: [] if value is None else [value] for name, value in given.items()}


def build(folder: Path, op_set: str = "native", **changed: Any) -> NativeEngine:
    """An engine that its gate lets through."""
    given = settings(**changed)
    return NativeEngine(folder, op_set=op_set, settings=given, gate=gate_for(given))


def request(name: str, prompt: list[int], **changed: Any) -> Request:
    """A conforming request; ``sampling`` is laid over the conforming parameters."""
    sampling = {**CONFORMING, **changed.pop("sampling", {})}
    given = {"max_tokens": 12, "seed": 1000 + int(name[1:]), "stop_token_ids": [], **changed}
    return Request(request_id=name, prompt_token_ids=prompt, sampling=sampling, **given)


def crowd(count: int = 8) -> list[Request]:
    """Requests r0, r1, … with prompts of 1 to 37 tokens."""
    lengths = [17, 1, 37, 8, 9, 30, 3, 24, 16, 33][:count]
    return [
        request(f"r{index}", [(7 * index + 5 * at * at + 3 * at) % VOCAB for at in range(length)])
        for index, length in enumerate(lengths)
    ]


def outcome(engine: NativeEngine, requests: list[Request], version: int = 0) -> dict[str, tuple[list[int], list[int]]]:
    """Tokens and logprob patterns of each request, by its id."""
    generated = engine.generate(requests, version)
    return answers(engine, generated)


def answers(engine: NativeEngine, generated: Generated) -> dict[str, tuple[list[int], list[int]]]:
    """The same of a finished call."""
    patterns = engine.reveal(generated.sealed.commitment)
    return {
        trajectory.request_id: (trajectory.token_ids, row)
        for trajectory, row in zip(generated.trajectories, patterns, strict=True)
    }


def whole(requests: list[Request], found: dict[str, tuple[list[int], list[int]]]) -> list[WholeSequence]:
    """What was generated, ready to score."""
    return [
        WholeSequence(
            token_ids=[*one.prompt_token_ids, *found[one.request_id][0]], prompt_length=len(one.prompt_token_ids)
        )
        for one in requests
    ]
