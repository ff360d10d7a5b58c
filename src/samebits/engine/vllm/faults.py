"""Failures of the engine core, in words that say whose turn it is.

The core runs in this process, so a Python exception arrives here; one that kills the process is the spool's to report,
with the log's last words.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from samebits.errors import MachineError, SamebitsError


@contextmanager
def reported(doing: str) -> Iterator[None]:
    """Turns what vLLM raises inside into a :class:`MachineError` about ``doing``.

    Raises:
        MachineError: out of memory, or any other failure of the engine core.
    """
    try:
        yield
    except SamebitsError:
        raise
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise MachineError(
            f"engine: {doing}",
            found=f"out of memory: {_words(error)}",
            accepted="memory for the weights, the pages and a step",
            next_step="Lower num_gpu_blocks, max_num_batched_tokens or gpu_memory_utilization, or free the device.",
        ) from error
    except Exception as error:
        raise MachineError(
            f"engine: {doing}",
            found=f"{type(error).__name__}: {_words(error)}",
            accepted="an engine core that answers",
            next_step="The traceback is in the worker's log; construct the engine again.",
        ) from error


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:400] or "no message"
