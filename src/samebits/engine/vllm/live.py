"""vLLM's engine, live in this process, and the parts of it that the adapter looks at.

Imports vLLM: only :mod:`samebits.engine.vllm.engine` imports this, and only after the variables are set.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Mapping
from typing import Any, Final

import torch
from vllm.config import VllmConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.exceptions import VLLMValidationError
from vllm.platforms import current_platform
from vllm.v1.engine.llm_engine import LLMEngine

from samebits.errors import GateError

REFUSALS: Final = (ValueError, TypeError, NotImplementedError, AssertionError, VLLMValidationError)
"""What vLLM raises of values that it does not accept; pydantic's errors are ValueErrors, 0.32's own are not."""


def configured(arguments: Mapping[str, Any]) -> VllmConfig:
    """The configuration that vLLM makes of ``arguments``, validated by vLLM.

    Raises:
        GateError: this version has no such argument, or vLLM itself refuses the values.
    """
    known = {one.name for one in dataclasses.fields(EngineArgs)}
    unknown = sorted(arguments.keys() - known)
    if unknown:
        raise GateError(
            f"engine arguments: {', '.join(unknown)}",
            found="unknown to this vLLM",
            accepted="the fields of its EngineArgs",
            next_step="Use the version that the row pins.",
        )
    try:
        return EngineArgs(**arguments).create_engine_config()
    except REFUSALS as error:
        raise GateError(
            "engine configuration",
            found=_words(error),
            accepted="what vLLM itself accepts",
            next_step="vLLM refused it; change the setting that it names.",
        ) from error


def alone(config: VllmConfig) -> Live:
    """The engine of this process; one that is there is ended first, since vLLM's process groups are global.

    So a configuration that vLLM accepts and then cannot build, or builds otherwise, leaves no engine at all.
    """
    global _alone  # noqa: PLW0603 - there is one for each process, in vLLM as well
    if _alone is not None:
        _alone.close()
    _alone = Live(config)
    return _alone


class Live:
    """One ``LLMEngine`` with its core, scheduler, worker and model runner within reach."""

    def __init__(self, config: VllmConfig) -> None:
        self.config = config
        self.is_closed = False
        self.is_cpu = bool(current_platform.is_cpu())
        self.engine = LLMEngine.from_vllm_config(config, disable_log_stats=True)
        self.core = self.engine.engine_core.engine_core
        self.scheduler = self.core.scheduler
        wrapper = self.core.model_executor.driver_worker
        self.worker = getattr(wrapper, "worker", wrapper)
        self.runner = self.worker.model_runner
        self.model: Any = self.runner.get_model()

    @property
    def block_pool(self) -> Any:
        """Who owns the pages of the KV cache."""
        return self.scheduler.kv_cache_manager.block_pool

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        found: torch.device = next(self.model.parameters()).device
        return found

    def attention_layers(self) -> dict[str, Any]:
        """Every attention layer by its name, as the forward finds it."""
        context = self.config.compilation_config.static_forward_context
        return {name: layer for name, layer in context.items() if hasattr(layer, "impl")}

    def close(self) -> None:
        """End the core and free its memory; a second time does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        self.engine.engine_core.shutdown()
        del self.engine, self.core, self.scheduler, self.worker, self.runner, self.model
        gc.collect()
        if not self.is_cpu:
            torch.cuda.empty_cache()


def _words(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)}"[:400]


_alone: Live | None = None
