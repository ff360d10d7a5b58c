"""What vLLM itself does with a model that this adapter refuses: ``python -m samebits.engine.vllm.unsupported FOLDER``.

FOLDER holds a ``config.json``, no weights: vLLM draws its own dummies.  The engine is really built, with or without the
batch-invariant flag, and one token is generated.  Standard output is one line of JSON, :class:`Outcome`; a refusal is
worth recording only where the real component was there and raised.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

from samebits.engine.vllm.variables import enter, installed
from samebits.environment import loaded_libraries
from samebits.hashing import sha256_file

ARGUMENTS: Final[Mapping[str, Any]] = {
    "load_format": "dummy",
    "skip_tokenizer_init": True,
    "max_model_len": 256,
    "max_num_seqs": 2,
    "gpu_memory_utilization": 0.2,
    "enforce_eager": True,
    "enable_prefix_caching": False,
    "generation_config": "vllm",
}
"""``EngineArgs`` of every attempt."""
_NOTHING: Final[Mapping[str, Any]] = {}

Stage = Literal["configuration", "construction", "first forward", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Where vLLM raised, and what it said."""

    vllm: str
    device: str
    batch_invariant: bool
    model_type: str
    config_sha256: str
    stage: Stage
    """``none``: nothing raised, a token came out."""
    error: str
    message: str
    """The first line of the exception that began it."""
    place: str
    """File, line and function that raised, within the installed packages."""
    torch: str
    settings: Mapping[str, Any]
    """The ``EngineArgs`` that it was built with; what they leave out is vLLM's own."""
    loaded: Mapping[str, str]
    """sha256 of each kernel library in use at the end, by its path."""


def attempt(folder: Path, *, batch_invariant: bool, arguments: Mapping[str, Any] = _NOTHING) -> Outcome:
    """Build an engine on the model in ``folder`` and generate one token; what vLLM raises is the result.

    ``arguments`` are laid over :data:`ARGUMENTS`.  For a process of its own: variables are set, and what is left of the
    engine is not cleaned up.

    Raises:
        GateError: vLLM was imported before, or under other variables.
        RowError: vLLM is not installed.
    """
    version, device = installed()
    enter(
        {
            "VLLM_BATCH_INVARIANT": "1" if batch_invariant else "0",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_PLUGINS": "",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            **({"TORCHDYNAMO_DISABLE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"} if device == "cpu" else {}),
        }
    )
    settings = {**ARGUMENTS, **arguments}
    stage: Stage = "configuration"
    error: Exception | None = None
    try:
        for stage, step in _steps({"model": str(folder), **settings}):  # noqa: B007 - read below: where it stopped
            step()
        stage = "none"
    except Exception as raised:  # noqa: BLE001 - whatever vLLM raises is what is asked for
        traceback.print_exc()
        error = raised
    root = _root(error)
    return Outcome(
        vllm=version,
        device=device,
        batch_invariant=batch_invariant,
        model_type=str(json.loads((folder / "config.json").read_bytes()).get("model_type")),
        config_sha256=sha256_file(folder / "config.json"),
        stage=stage,
        error="" if root is None else type(root).__name__,
        message="" if root is None else next(iter(str(root).strip().splitlines()), ""),
        place=_place(root),
        torch=metadata.version("torch"),
        settings=settings,
        loaded=loaded_libraries(),
    )


def _steps(arguments: Mapping[str, Any]) -> list[tuple[Stage, Callable[[], object]]]:
    built: dict[str, Any] = {}

    def configure() -> None:
        from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415 - only after the variables are set

        built["config"] = EngineArgs(**arguments).create_engine_config()

    def construct() -> None:
        from vllm.v1.engine.llm_engine import LLMEngine  # noqa: PLC0415

        built["engine"] = LLMEngine.from_vllm_config(built["config"], disable_log_stats=True)

    def generate() -> None:
        from vllm import SamplingParams  # noqa: PLC0415
        from vllm.inputs.engine import tokens_input  # noqa: PLC0415

        engine = built["engine"]
        engine.add_request("one", tokens_input([1, 2, 3]), SamplingParams(max_tokens=1, seed=0, detokenize=False))
        while engine.has_unfinished_requests():
            engine.step()

    return [("configuration", configure), ("construction", construct), ("first forward", generate)]


def _root(error: BaseException | None) -> BaseException | None:
    """The exception that began it; vLLM wraps some on the way up."""
    while error is not None and (error.__cause__ or error.__context__) is not None:
        error = error.__cause__ or error.__context__
    return error


def _place(error: BaseException | None) -> str:
    if error is None or error.__traceback__ is None:
        return ""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename.rpartition('site-packages/')[2]}:{last.lineno} in {last.name}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; exit code 0 whatever vLLM did, for that is the result."""
    parser = argparse.ArgumentParser(prog="python -m samebits.engine.vllm.unsupported", description=__doc__)
    parser.add_argument("folder", type=Path, help="holds a config.json")
    parser.add_argument("--flag", action="store_true", help="with VLLM_BATCH_INVARIANT=1")
    parser.add_argument("--arguments", type=json.loads, default={}, help="further EngineArgs, as JSON")
    options = parser.parse_args(arguments)
    outcome = attempt(options.folder, batch_invariant=options.flag, arguments=options.arguments)
    sys.stdout.write("\n" + json.dumps(asdict(outcome)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
