"""A model folder: ``config.json`` and ``model.safetensors``, nothing in between believed.

The folder is how weights travel between the parent, the engine and the actor, so what is in the file must be exactly
what the family needs: a missing, unexpected, misshapen or silently cast tensor is an error, never a default.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from samebits.errors import InputError
from samebits.models.dense import Dense
from samebits.models.ds4 import DeepSeekV4
from samebits.models.family import Decoder, Weights

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"

FAMILIES: Final[dict[str, Callable[[Mapping[str, Any]], Decoder]]] = {
    "deepseek_v4": DeepSeekV4,
    "llama": Dense,
    "qwen3": Dense,
}
"""``model_type`` to the family that computes it; a new family is one more entry."""

DTYPES: Final = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def open_folder(
    folder: Path, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> tuple[Decoder, dict[str, Tensor]]:
    """The decoder and its weights, by default on the CPU.

    ``dtype`` is what every tensor must have; by default what ``config.json`` says.  Nothing is cast.

    Raises:
        InputError: a file is missing or unreadable, the model is not supported, or a tensor is missing,
            unexpected, of another shape or of another dtype.
    """
    config = read_config(folder)
    decoder = open_decoder(config)
    path = folder / WEIGHTS
    weights = read_weights(path, device)
    check_weights(decoder, weights, dtype or config_dtype(config), source=WEIGHTS)
    return decoder, weights


def save_folder(folder: Path, config: Mapping[str, Any], weights: Weights) -> None:
    """Write ``config.json`` and ``model.safetensors`` into ``folder``, which is made if absent.

    Raises:
        InputError: ``weights`` is not what ``config`` describes.
    """
    check_weights(open_decoder(config), weights, config_dtype(config), source="weights")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    # The metadata is what transformers writes and, before 5.0, insisted on.
    save_file({name: weight.contiguous() for name, weight in weights.items()}, folder / WEIGHTS, {"format": "pt"})


def open_decoder(config: Mapping[str, Any]) -> Decoder:
    """The family at ``config``, without weights.

    Raises:
        InputError: no family computes this ``model_type``, or not with these options.
    """
    family = FAMILIES.get(config.get("model_type", ""))
    if family is None:
        raise InputError(
            f"{CONFIG}: model_type",
            found=config.get("model_type", "nothing"),
            accepted=", ".join(FAMILIES),
            next_step="Choose a model of a supported family.",
        )
    return family(config)


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` of ``folder``.

    Raises:
        InputError: missing, unreadable, or not a JSON object.
    """
    path = folder / CONFIG
    try:
        config = json.loads(path.read_bytes())
    except OSError as error:
        raise _unreadable(path, error.strerror or "unreadable", "a model folder's config.json") from None
    except ValueError as error:
        raise _unreadable(path, f"not JSON ({error})", "a JSON object") from None
    if not isinstance(config, dict):
        raise _unreadable(path, f"a JSON {type(config).__name__}", "a JSON object")
    return config


def read_weights(path: Path, device: torch.device | None = None) -> dict[str, Tensor]:
    """All tensors of a safetensors file, by default on the CPU.

    Raises:
        InputError: missing, truncated, or not safetensors.
    """
    try:
        # Cloned, since load_file maps the file: a file overwritten later must not change the weights under us.
        return {name: weight.to(device, copy=True) for name, weight in load_file(path).items()}
    except FileNotFoundError:
        raise _unreadable(path, "no such file", "a safetensors file") from None
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, str(error), "a whole safetensors file") from None


def check_weights(decoder: Decoder, weights: Weights, dtype: torch.dtype, *, source: str) -> None:
    """That ``weights`` are exactly what ``decoder`` deploys when its activations are of ``dtype``.

    Raises:
        InputError: names the first fault and counts the rest of its kind; ``source`` says where they came from.
    """
    tensors = decoder.deployed(dtype)
    missing = [name for name in tensors if name not in weights]
    if missing:
        raise _fault(source, missing, "nothing", "a tensor of this name")
    unexpected = [name for name in weights if name not in tensors]
    if unexpected:
        raise _fault(source, unexpected, "a tensor", "no tensor of this name in this model")
    misshapen = [name for name, tensor in tensors.items() if tuple(weights[name].shape) != tensor.shape]
    if misshapen:
        first = misshapen[0]
        raise _fault(source, misshapen, f"shape {list(weights[first].shape)}", f"shape {list(tensors[first].shape)}")
    cast = [name for name, tensor in tensors.items() if weights[name].dtype != tensor.dtype]
    if cast:
        raise _fault(source, cast, _name(weights[cast[0]].dtype), _name(tensors[cast[0]].dtype))


def config_dtype(config: Mapping[str, Any]) -> torch.dtype:
    """The dtype of a model's activations.  Transformers 5 writes ``dtype``, older ones ``torch_dtype``.

    Raises:
        InputError: neither, or one that no family computes in.
    """
    name = config.get("dtype", config.get("torch_dtype"))
    if name not in DTYPES:
        raise InputError(
            f"{CONFIG}: dtype",
            found=name or "nothing",
            accepted=" or ".join(DTYPES),
            next_step="Prepare the model folder again.",
        )
    return DTYPES[name]


def _fault(source: str, names: list[str], found: str, accepted: str) -> InputError:
    more = f" {len(names) - 1} more tensor(s) with this fault." if len(names) > 1 else ""
    return InputError(
        f"{source}: {names[0]}",
        found=found,
        accepted=accepted,
        next_step="Prepare the model folder again, or correct its config.json." + more,
    )


def _unreadable(path: Path, found: str, accepted: str) -> InputError:
    return InputError(str(path), found=found, accepted=accepted, next_step="Prepare the model folder again.")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
