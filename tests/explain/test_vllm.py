"""Tracing the real vLLM: nothing changes, every op of the model is there, and the walk back ends at the attention.

The engine shares one sequence's keys between two threads (the CPU row's control arm), so that its rollout and its own
prefill differ.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from samebits import pins
from samebits.certify.arm import EngineClient
from samebits.engine.protocol import Generated, WholeSequence
from samebits.environment import StackEnvironment
from samebits.explain.birth import Birth, find_birth
from samebits.models import save_folder, seeded_config, seeded_weights
from samebits.spool import Worker, to_message
from samebits.traced import Target, Traced
from vllm_asked import MODEL, crowd, gate_for, settings

pytestmark = pytest.mark.vllm

ASKED = settings(attention_split_kv=True)
REQUESTS = crowd()[::-1]
"""The longest prompts come last and decode in a small batch: there threads share a sequence's keys."""


class Told(NamedTuple):
    """One round of an engine, its own prefill of it, and the first token on which the two differ."""

    engine: EngineClient
    generated: Generated
    wholes: list[WholeSequence]
    scored: str
    target: Target


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> StackEnvironment:
    named = os.environ.get("SAMEBITS_VLLM_PYTHON")
    python = Path(named) if named else pins.stack.find(pins.load("cpu-vllm-0.32")[0])
    if python is None:
        pytest.skip("SAMEBITS_VLLM_PYTHON names no interpreter of an environment with vLLM")
    return StackEnvironment(python, tmp_path_factory.mktemp("kit"))


@pytest.fixture(scope="module")
def parameters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("model")
    save_folder(folder, seeded_config(MODEL), seeded_weights(MODEL))
    return {"model_folder": str(folder), "op_set": "vllm-cpu", "settings": ASKED, "gate": gate_for(ASKED)}


@pytest.fixture(scope="module")
def told(
    stack: StackEnvironment, parameters: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Told]:
    scratch = tmp_path_factory.mktemp("engine")
    with Worker.start(
        name="engine",
        command=stack.command("samebits.engine.worker", str(scratch / "spool")),
        spool=scratch / "spool",
        log=scratch / "log",
        environment=stack.environment(2),
        wait=False,
    ) as worker:
        client = EngineClient(worker)
        client.construct(**parameters)
        generated = client.generate(REQUESTS, 0)
        wholes = [
            WholeSequence(
                token_ids=[*asked.prompt_token_ids, *one.token_ids], prompt_length=len(asked.prompt_token_ids)
            )
            for asked, one in zip(REQUESTS, generated.trajectories, strict=True)
        ]
        scored = client.score(wholes, 0).commitment
        left, right = client.reveal(generated.sealed.commitment), client.reveal(scored)
        sequence, place = next(
            (at, place)
            for at, (ours, theirs) in enumerate(zip(left, right, strict=True))
            for place, (one, other) in enumerate(zip(ours, theirs, strict=True))
            if one != other
        )
        target = Target(sequence=sequence, token=wholes[sequence].prompt_length + place)
        yield Told(client, generated, wholes, scored, target)


@pytest.fixture(scope="module")
def left(told: Told) -> Traced:
    call = told.engine.trace(REQUESTS, 0, told.target)
    assert call.sealed.commitment == told.generated.sealed.commitment
    assert [one.token_ids for one in call.trajectories] == [one.token_ids for one in told.generated.trajectories]
    return call.traced


@pytest.fixture(scope="module")
def birth(told: Told, left: Traced) -> Birth:
    call = told.engine.trace(told.wholes, 0, told.target)
    assert call.sealed.commitment == told.scored
    return find_birth(left, call.traced, told.target.token)


def test_every_op_of_every_layer_is_there(told: Told, left: Traced) -> None:
    layer = (
        "input_layernorm.residual", "input_layernorm",
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.q_norm", "self_attn.k_norm",
        "self_attn.rotary_emb.q", "self_attn.rotary_emb.k", "self_attn.attn", "self_attn.o_proj",
        "post_attention_layernorm.residual", "post_attention_layernorm",
        "mlp.gate_proj", "mlp.up_proj", "mlp.act_fn", "mlp.down_proj",
    )  # fmt: skip
    names = [
        "model.embed_tokens",
        *(f"model.layers.0.{op}" for op in layer[1:]),
        *(f"model.layers.1.{op}" for op in layer),
        "model.norm.residual",
        "model.norm",
        "lm_head",
        "logprob",
    ]
    assert [op.name for op in left.ops] == names
    last = told.target.token - 1
    assert all(op.at(last) is not None for op in left.ops)
    assert left.shape_at(last).rows == 1  # a decode


def test_the_difference_was_born_in_an_attention(birth: Birth) -> None:
    assert birth.mixes
    assert birth.first.op.endswith(".self_attn.attn")
    assert birth.first.left_by == "Attention, CPU_ATTN"


@pytest.mark.parametrize("op", ["model.layers.1.mlp.down_proj", "model.layers.1.input_layernorm", "lm_head"])
def test_an_op_alone_gives_its_row_again_among_any_number_of_rows(told: Told, left: Traced, op: str) -> None:
    row = told.target.token - 1
    target = Target(sequence=told.target.sequence, token=told.target.token, rerun=op, row=row, sizes=[1, 8, 64])
    again = told.engine.trace(REQUESTS, 0, target).traced
    recorded = next(one for one in left.ops if one.name == op).at(row)
    assert [(one.rows, one.digest) for one in again.reruns] == [(rows, recorded) for rows in (1, 8, 64)]


def test_the_script_shows_it_with_vllm_alone(
    stack: StackEnvironment, parameters: dict[str, Any], tmp_path: Path
) -> None:
    request = {"parameters": parameters, "requests": [to_message(one) for one in REQUESTS], "observed": "Seen."}
    (tmp_path / "request.json").write_text(json.dumps(request))
    subprocess.run(
        stack.command("samebits.engine.vllm.script", str(tmp_path / "request.json"), str(tmp_path / "fault.py")),
        env=stack.environment(1),
        check=True,
    )
    text = (tmp_path / "fault.py").read_text()
    assert "samebits" not in text
    assert _differing(stack, tmp_path / "fault.py") > 0
    # The switch is all that it takes.
    (tmp_path / "aligned.py").write_text(text.replace("'VLLM_CPU_ATTN_SPLIT_KV': '1'", "'VLLM_CPU_ATTN_SPLIT_KV': '0'"))
    assert _differing(stack, tmp_path / "aligned.py") == 0


def _differing(stack: StackEnvironment, path: Path) -> int:
    done = subprocess.run([stack.python, path], capture_output=True, text=True, check=False, cwd=path.parent)
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = [line for line in done.stdout.splitlines() if line.endswith("differ between rollout and prefill")]
    return int(line.split()[0])
