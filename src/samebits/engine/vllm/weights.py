"""The engine's weights: taken from a file, into vLLM's own parameters, and read back from them (refit).

Two ways in.  ``file``: vLLM's ``reload_weights``, which loads each layer anew, packs it for its kernels and copies it
to where it was.  ``in_place``: the model's own ``load_weights`` into the live parameters, which keep their addresses,
so that captured CUDA graphs read the new ones.

Both get the tensors of the one file that was checked, digest by digest, before.  What is digested afterwards is what
computes: the live parameters, cut back from fused to Hugging Face's own; and where a kernel keeps a packed copy (on
CPUs: oneDNN's), what that copy multiplies by.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from vllm.config import set_current_vllm_config

from samebits.engine.protocol import Refitted
from samebits.engine.versioned import VersionedWeights
from samebits.engine.vllm.faults import reported
from samebits.engine.vllm.live import Live
from samebits.errors import MachineError
from samebits.integrity import digests
from samebits.models.family import Decoder
from samebits.models.folder import check_weights, read_weights
from samebits.recipe.model import VllmSettings

BROKEN: Final = -1
"""The version of weights that a failed refit left half loaded: nobody can ask for it."""
_FUSED: Final = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
"""vLLM's fused layers, and what Hugging Face's checkpoints call their parts, in the order of their rows."""


class VllmWeights(VersionedWeights):
    """The weight version in the engine, and how the next one gets there."""

    def __init__(self, live: Live, decoder: Decoder, dtype: torch.dtype, settings: VllmSettings) -> None:
        super().__init__(decoder, dtype)
        self._live = live
        self._in_place = settings.refit == "in_place"

    def refit(self, path: Path, version: int, *, verify: bool) -> Refitted:
        """Load the tensors of a safetensors file as ``version``; digests on arrival and after, if ``verify``.

        The file is checked whole before the first parameter changes.

        Raises:
            InputError: a version that goes back or is in use, an unreadable file, or tensors that are not this model's.
            MachineError: vLLM failed to load them, loaded fewer, or moved a parameter that a CUDA graph points to.
        """
        began = time.perf_counter()
        self._check_next(version)
        # In place the tensors cross to the device once, before vLLM copies them into its fused parameters there.
        arriving = read_weights(path, self._live.device if self._in_place else None)
        check_weights(self._decoder, arriving, self.dtype, source=path.name)
        arrived = digests(arriving) if verify else {}
        before = self._addresses()
        self.version = BROKEN  # until all have arrived
        with reported("refit"), torch.no_grad(), set_current_vllm_config(self._live.config):
            if self._in_place:
                self._check_loaded(self._live.model.load_weights(arriving.items()))
            else:
                self._live.engine.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(arriving.items())})
        if not self._live.is_cpu and self._addresses() != before:
            raise MachineError(
                "engine: refit",
                found="parameters at other addresses than before",
                accepted="the same storage, to which captured CUDA graphs point",
                next_step='Set refit = "in_place", or cudagraph_mode = "NONE".',
            )
        self.version, self.is_used = version, False
        loaded = digests(self.materialised(arriving)) if verify else {}
        return Refitted(version=version, arrived=arrived, loaded=loaded, seconds=time.perf_counter() - began)

    def materialised(self, arriving: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights that compute, by Hugging Face's names.

        A packed weight is read through its own kernel, as its product with the identity matrix: exact in every bit but
        the sign of a zero (0·x + −0.0 is 0.0), which is taken from ``arriving`` where both are zero.

        Raises:
            MachineError: a parameter and the packed copy that computes in its place differ.
        """
        found: dict[str, Tensor] = {}
        for name, parameter in self._live.model.named_parameters():
            module_name = name.rpartition(".")[0]
            module = self._live.model.get_submodule(module_name)
            whole = parameter.data
            parts = self._parts(name)
            if hasattr(module, "cpu_linear"):
                whole = _through_the_kernel(module, parts, arriving, whole, name)
            sizes = [arriving[part].shape[0] for part in parts]
            # Rows behind the last part pad the vocabulary.
            found |= zip(parts, torch.split(whole[: sum(sizes)], sizes), strict=True)
        return found

    def _parts(self, name: str) -> list[str]:
        for fused, parts in _FUSED.items():
            if f".{fused}." in name:
                return [name.replace(fused, part) for part in parts]
        return [name]

    def _addresses(self) -> dict[str, int]:
        return {name: parameter.data_ptr() for name, parameter in self._live.model.named_parameters()}

    def _check_loaded(self, loaded: Any) -> None:
        missing = sorted({name for name, _ in self._live.model.named_parameters()} - set(loaded))
        if missing:
            raise MachineError(
                "engine: refit",
                found=f"not loaded: {', '.join(missing[:3])}",
                accepted="every parameter of the model",
                next_step="This vLLM does not know these tensors by the names in the file.",
            )


def _through_the_kernel(
    module: Any, parts: list[str], arriving: Mapping[str, Tensor], parameter: Tensor, name: str
) -> Tensor:
    """The weight that ``module.cpu_linear`` multiplies by, [N, K]."""
    sent = torch.cat([arriving[part] for part in parts])
    identity = torch.eye(sent.shape[1], dtype=sent.dtype)
    read: Tensor = module.cpu_linear(identity, parameter, None).t().contiguous()
    read = torch.where((read[: len(sent)] == 0) & (sent == 0), sent, read[: len(sent)])
    if parameter.numel() and not torch.equal(
        parameter[: len(sent)].contiguous().view(torch.uint8), read.contiguous().view(torch.uint8)
    ):
        raise MachineError(
            f"engine: {name}",
            found="a packed copy with other values than the parameter",
            accepted="one weight in both places",
            next_step="This vLLM did not pack the layer again after loading it; the row must not be certified.",
        )
    return read
