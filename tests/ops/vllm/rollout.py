"""Run with vLLM's interpreter: ``rollout.py ASKED.json``.  Seeded, sampled sequences from the real engine.

Writes for each sequence the prompt, the tokens, and the fp32 patterns of their raw logprobs.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np


def main(asked: dict) -> None:
    from vllm import LLM, SamplingParams  # noqa: PLC0415 - a spawned worker imports this file too

    config = json.loads((Path(asked["model"]) / "config.json").read_text())
    llm = LLM(
        model=asked["model"],
        dtype=config["dtype"],
        skip_tokenizer_init=True,
        enable_prefix_caching=False,
        logprobs_mode="raw_logprobs",
        seed=0,
        **asked["engine"],
    )
    draw = random.Random(asked["seed"])  # noqa: S311 - token ids, not keys
    prompts, sampling = [], []
    for index in range(asked["sequences"]):
        length = draw.randint(2, asked["prompt_tokens"])
        prompts.append({"prompt_token_ids": [draw.randrange(config["vocab_size"]) for _ in range(length)]})
        tokens = draw.randint(1, asked["response_tokens"])
        sampling.append(
            SamplingParams(
                temperature=1.0, max_tokens=tokens, logprobs=0, seed=1000 + index, ignore_eos=True, detokenize=False
            )
        )
    rows = []
    for output in llm.generate(prompts, sampling, use_tqdm=False):
        tokens = list(output.outputs[0].token_ids)
        logprobs = [found[token].logprob for found, token in zip(output.outputs[0].logprobs, tokens, strict=True)]
        bits = np.array(logprobs, dtype=np.float32).view(np.uint32).tolist()
        rows.append({"prompt": list(output.prompt_token_ids), "tokens": tokens, "bits": bits})
    Path(asked["out"]).write_text(json.dumps(rows))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
