"""Importing vLLM's CUDA build into the actor's process, and putting the process into the engine's mode."""

from __future__ import annotations

import importlib
import os
from types import SimpleNamespace
from typing import Any, Final

import torch

from samebits.errors import MachineError
from samebits.ops.borrowed import Borrowed
from samebits.ops.borrowed.engine import require_version
from samebits.ops.vllm.primitives import CudaPrimitives

DISTRIBUTION: Final = "vllm"
VERSION: Final = "0.26.0"
FLAG: Final = "VLLM_BATCH_INVARIANT"


def open_vllm(*, batch_invariant: bool) -> Borrowed:
    """The op set ``vllm`` on this process' current GPU.

    ``batch_invariant`` is what the engine has in ``VLLM_BATCH_INVARIANT``.  With it the process is changed for good:
    vLLM overrides ``mean``, ``softmax``, ``log_softmax`` and ``bmm`` in ATen and reconfigures cuBLAS, exactly as it
    does in an engine's worker (``init_batch_invariance``).

    Raises:
        MachineError: no GPU, no vLLM, another version, a GPU without FlashAttention 3, or a process that is in the
            other mode already.
    """
    require_version(DISTRIBUTION, VERSION)
    if not torch.cuda.is_available():
        raise MachineError(
            "GPU",
            found="none that torch can use",
            accepted="an NVIDIA GPU of the Hopper generation",
            next_step="Run on a machine that the row names.",
        )
    _enter(batch_invariant=batch_invariant)
    flash = importlib.import_module("vllm.vllm_flash_attn.flash_attn_interface")
    if not flash.is_fa_version_supported(3):
        raise MachineError(
            "FlashAttention 3",
            found=flash.fa_version_unsupported_reason(3),
            accepted="vLLM's own build of it, on a GPU that has it",
            next_step="Run on a machine that the row names.",
        )
    vllm = SimpleNamespace(
        linear_batch_invariant=_batch_invariant().linear_batch_invariant,
        flash_attn_varlen_func=flash.flash_attn_varlen_func,
        compute_token_logprobs=importlib.import_module("vllm.v1.worker.gpu.sample.logprob").compute_token_logprobs,
    )
    device = torch.device("cuda", torch.cuda.current_device())
    return Borrowed("vllm", CudaPrimitives(vllm, device, batch_invariant=batch_invariant))


def _enter(*, batch_invariant: bool) -> None:
    """Set the flag and call vLLM's own initialisation, which reads it."""
    asked = str(int(batch_invariant))
    # Several of vLLM's modules read the flag when they are imported.
    found = os.environ.setdefault(FLAG, asked)
    if found != asked:
        raise MachineError(
            FLAG,
            found=f"{found}, in a process that is to compute with {asked}",
            accepted="one mode for each process",
            next_step="Start the actor in a process of its own, with the variable unset or equal to the switch.",
        )
    _batch_invariant().init_batch_invariance()


def _batch_invariant() -> Any:
    return importlib.import_module("vllm.model_executor.layers.batch_invariant")
