"""A script that shows with vLLM alone that its rollout and its prefill differ: ``python -m … REQUEST.json SCRIPT.py``.

REQUEST holds what one arm's engine was constructed with and the requests of one round.  The script knows nothing of
this kit: it makes a model of the same shape with weights of its own, generates, prefills the same tokens, and compares
bit patterns.  It is written to be filed with a report upstream.
"""

from __future__ import annotations

import json
import pprint
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from samebits.engine.protocol import Request
from samebits.engine.vllm.arguments import arguments
from samebits.engine.vllm.variables import installed, variables
from samebits.errors import InputError
from samebits.models.folder import read_config
from samebits.recipe.model import VllmSettings
from samebits.spool import from_message

_KEPT_OUT: Final = {"model"}

_TEMPLATE: Final = '''"""vLLM {version}: logprobs of a rollout differ from those of a prefill of the same tokens.

Needs only vLLM.  Makes a small random model, generates {count} sequences with fixed seeds, then computes the prompt
logprobs of prompt and answer in one prefill, with the same engine, and compares the fp32 bit patterns of the sampled
tokens' logprobs.  {observed}
"""

import json
import os
import struct
import tempfile
from pathlib import Path

VARIABLES = {variables}
os.environ.update(VARIABLES)
{threads}
import torch
from safetensors.torch import save_file
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.engine.llm_engine import LLMEngine

CONFIG = {config}
ENGINE = {engine}
# Token ids of the prompt, tokens to generate, seed, and the engine step at which the request arrives.
REQUESTS = {requests}


def model(folder):
    """Random weights of the shape in CONFIG, by the names of Hugging Face's checkpoints."""
    torch.manual_seed(0)
    dtype = getattr(torch, ENGINE["dtype"])
    hidden, inner, vocab = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["vocab_size"]
    size = CONFIG.get("head_dim") or hidden // CONFIG["num_attention_heads"]
    queries, keys = CONFIG["num_attention_heads"] * size, CONFIG["num_key_value_heads"] * size
    tensors = {{"model.embed_tokens.weight": torch.randn(vocab, hidden), "model.norm.weight": torch.ones(hidden)}}
    if not CONFIG.get("tie_word_embeddings"):
        tensors["lm_head.weight"] = torch.randn(vocab, hidden) * 2.8 / hidden**0.5
    for layer in range(CONFIG["num_hidden_layers"]):
        at = f"model.layers.{{layer}}."
        for name, shape in {{
            "self_attn.q_proj": (queries, hidden),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, queries),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }}.items():
            tensors[f"{{at}}{{name}}.weight"] = torch.randn(*shape) / shape[1] ** 0.5
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{{at}}{{name}}.weight"] = torch.ones(hidden)
        if CONFIG["model_type"] == "qwen3":
            for name in ("q_norm", "k_norm"):
                tensors[f"{{at}}self_attn.{{name}}.weight"] = torch.ones(size)
    save_file({{name: one.to(dtype).contiguous() for name, one in tensors.items()}}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG))


def run(engine, requests):
    """Outputs by name; (name, arrival, token ids, sampling)."""
    waiting, done, step = sorted(requests, key=lambda one: one[1]), {{}}, 0
    while waiting or engine.has_unfinished_requests():
        while waiting and (waiting[0][1] <= step or not engine.has_unfinished_requests()):
            name, _, token_ids, sampling = waiting.pop(0)
            engine.add_request(name, {{"prompt_token_ids": token_ids}}, sampling)
        for output in engine.step():
            if output.finished:
                done[output.request_id] = output
        step += 1
    return done


def pattern(logprob):
    return struct.unpack("<I", struct.pack("<f", logprob))[0]


def main():
    with tempfile.TemporaryDirectory() as name:
        model(Path(name))
        engine = LLMEngine.from_engine_args(EngineArgs(model=name, **ENGINE))
        rollouts = run(
            engine,
            [
                (
                    str(number),
                    arrival,
                    prompt,
                    SamplingParams(
                        temperature=1.0, seed=seed, max_tokens=tokens, ignore_eos=True, logprobs=0, detokenize=False
                    ),
                )
                for number, (prompt, tokens, seed, arrival) in enumerate(REQUESTS)
            ],
        )
        compared = different = 0
        first = None
        for number, (prompt, *_) in enumerate(REQUESTS):
            (answer,) = rollouts[str(number)].outputs
            whole = [*prompt, *answer.token_ids]
            sampling = SamplingParams(temperature=1.0, seed=0, max_tokens=1, prompt_logprobs=0, detokenize=False)
            prefill = run(engine, [(f"prefill {{number}}", 0, whole, sampling)])[f"prefill {{number}}"]
            for at, token in enumerate(answer.token_ids):
                left = pattern(answer.logprobs[at][token].logprob)
                right = pattern(prefill.prompt_logprobs[len(prompt) + at][token].logprob)
                compared += 1
                if left != right:
                    different += 1
                    first = first or (number, len(prompt) + at, hex(left), hex(right))
        print(f"{{different}} of {{compared}} tokens differ between rollout and prefill")
        if first:
            print("first: sequence {{}}, position {{}}, rollout {{}}, prefill {{}}".format(*first))


if __name__ == "__main__":
    main()
'''


def script(parameters: Mapping[str, Any], requests: list[Request], observed: str) -> str:
    """The text of the script; ``parameters`` are those of ``construct``, ``observed`` says what was seen.

    Raises:
        RowError: no vLLM is installed here, so nobody can say for which one it would be.
    """
    version, device = installed()
    settings = VllmSettings(**parameters["settings"])
    folder = Path(parameters["model_folder"])
    config = read_config(folder)
    engine = {name: value for name, value in arguments(settings, folder, config).items() if name not in _KEPT_OUT}
    threads = f'os.environ["OMP_NUM_THREADS"] = "{settings.threads}"\n' if device == "cpu" else ""
    rows = [(one.prompt_token_ids, one.max_tokens, one.seed, one.arrival_step) for one in requests]
    return _TEMPLATE.format(
        version=version,
        count=len(requests),
        observed=observed,
        variables=_shown(variables(settings, device)),
        threads=threads,
        config=_shown(config),
        engine=_shown(engine),
        requests=_shown(rows),
    )


def _shown(value: object) -> str:
    return pprint.pformat(value, width=116, compact=True, sort_dicts=False)


def main(names: list[str]) -> None:
    """Read the request, write the script."""
    if len(names) != 2:  # noqa: PLR2004 - two files
        sys.exit("usage: python -m samebits.engine.vllm.script REQUEST.json SCRIPT.py")
    asked = json.loads(Path(names[0]).read_text())
    if asked["parameters"]["settings"].get("kind") != "vllm":
        raise InputError(
            "engine.kind",
            found=repr(asked["parameters"]["settings"].get("kind")),
            accepted="'vllm'",
            next_step="Only a fault of vLLM can be shown with vLLM alone.",
        )
    requests = [from_message(Request, one, where="requests") for one in asked["requests"]]
    Path(names[1]).write_text(script(asked["parameters"], requests, asked["observed"]))


if __name__ == "__main__":
    main(sys.argv[1:])
