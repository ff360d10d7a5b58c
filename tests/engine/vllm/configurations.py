"""Run by the stack's interpreter: what vLLM itself makes of each configuration that the gate refuses.

``configurations.py FOLDER < settings.json`` prints one JSON object: per name, ``as asked``, ``changed to …`` where vLLM
silently does something else, or ``refused: …``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from samebits.engine.vllm.arguments import arguments
from samebits.engine.vllm.variables import enter, installed, variables
from samebits.errors import GateError
from samebits.models.folder import read_config
from samebits.recipe.model import VllmSettings

TABLE = {
    "tensor_parallel_size": (2, lambda c: c.parallel_config.tensor_parallel_size),
    "pipeline_parallel_size": (2, lambda c: c.parallel_config.pipeline_parallel_size),
    "data_parallel_size": (2, lambda c: c.parallel_config.data_parallel_size),
    "decode_context_parallel_size": (2, lambda c: c.parallel_config.decode_context_parallel_size),
    "enable_expert_parallel": (True, lambda c: c.parallel_config.enable_expert_parallel),
    "quantization": ("fp8", lambda c: c.model_config.quantization),
    "kv_cache_dtype": ("fp8", lambda c: c.cache_config.cache_dtype),
    "enable_prefix_caching": (True, lambda c: c.cache_config.enable_prefix_caching),
    "enable_chunked_prefill": (True, lambda c: c.scheduler_config.enable_chunked_prefill),
    "enable_lora": (True, lambda c: c.lora_config is not None),
    "logprobs_mode": ("processed_logprobs", lambda c: c.model_config.logprobs_mode),
    "attention_backend": ("TRITON_ATTN", lambda c: c.attention_config.backend.name),
    "enforce_eager": (False, lambda c: c.model_config.enforce_eager),
    "async_scheduling": (True, lambda c: c.scheduler_config.async_scheduling),
    "enable_dbo": (True, lambda c: c.parallel_config.enable_dbo),
    "generation_config": ("auto", lambda c: c.model_config.generation_config),
    "enable_sleep_mode": (True, lambda c: c.model_config.enable_sleep_mode),
    "speculative_config": (
        {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 2},
        lambda c: c.speculative_config is not None,
    ),
    "kv_transfer_config": (
        {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
        lambda c: c.kv_transfer_config is not None,
    ),
    "compilation_config": (
        {"mode": 3, "custom_ops": ["none"], "cudagraph_mode": "FULL"},
        lambda c: [int(c.compilation_config.mode), c.compilation_config.cudagraph_mode.name],
    ),
    "nonsense_argument": (True, lambda _: None),
}


def outcome(base, name):
    from samebits.engine.vllm.live import configured  # noqa: PLC0415 - imports vLLM

    value, read = TABLE[name]
    changed = dict(base)
    if name in {"enforce_eager", "compilation_config"}:
        changed["enforce_eager"] = False
    changed[name] = value
    try:
        found = read(configured(changed))
    except GateError as error:
        return f"refused: {error.found}"
    wanted = {"speculative_config": True, "kv_transfer_config": True, "compilation_config": [3, "FULL"]}.get(
        name, value
    )
    return "as asked" if found == wanted else f"changed to {found!r}"


def main(folder):
    settings = VllmSettings(**json.load(sys.stdin))
    enter(variables(settings, installed()[1]))
    base = arguments(settings, folder, read_config(folder))
    found = {name: outcome(base, name) for name in TABLE}
    sys.stdout.write("\n" + json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
