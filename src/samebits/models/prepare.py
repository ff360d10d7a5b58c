"""Make the model folder of a recipe: ``python -m samebits.models.prepare --recipe-json FILE``.

A process of its own, so that the parent of a certification never imports torch.  FILE holds the recipe's ``model``
table as JSON.  Standard output is one line of JSON, :class:`Prepared` or an error; words for people go to standard
error.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from samebits.errors import InputError, SamebitsError
from samebits.hashing import sha256_bytes
from samebits.models import smollm2
from samebits.models.cache import CachedFolder, cached_folder, default_root
from samebits.models.folder import WEIGHTS, open_decoder, read_config, save_folder
from samebits.models.seeded import SCHEME, seeded_config, seeded_weights
from samebits.recipe.model import Model
from samebits.schema import parse

_BUILDING: Final = {
    "smollm2-135m": "dequantising SmolLM2-135M-Instruct, about 20 s, once on this machine",
    "seeded": "drawing seeded weights",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A model folder, ready for engines and actors."""

    folder: str
    files: Mapping[str, str]
    """File name to sha256."""
    parameters: int
    family: str
    vocab_size: int
    layers: int
    max_positions: int
    was_cached: bool
    seconds: float


def prepare(model: Model, *, root: Path | None = None) -> Prepared:
    """The folder of ``model`` under ``root`` (the user's cache by default), built unless it lies there intact.

    Raises:
        InputError: a seeded model without a shape, or with one that the family refuses.
        MachineError: a package is missing or the cache cannot be written.
        RowError: what is installed makes other bits than those pinned.
    """
    start = time.monotonic()
    folder = _folder(model, root or default_root())
    decoder = open_decoder(read_config(folder.path))
    return Prepared(
        folder=str(folder.path),
        files=folder.files,
        parameters=sum(math.prod(shape) for shape in decoder.parameter_shapes().values()),
        family=model.family,
        vocab_size=decoder.vocab_size,
        layers=decoder.layers,
        max_positions=decoder.max_positions,
        was_cached=folder.was_cached,
        seconds=round(time.monotonic() - start, 3),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; its exit code is the error's, or 0."""
    parser = argparse.ArgumentParser(prog="python -m samebits.models.prepare", description=__doc__)
    parser.add_argument("--recipe-json", type=Path, required=True, metavar="FILE", help="the recipe's model as JSON")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="instead of the user's cache folder")
    options = parser.parse_args(arguments)
    try:
        # Libraries print where they like; standard output is for the one line.
        with contextlib.redirect_stdout(sys.stderr):
            prepared = prepare(_read(options.recipe_json), root=options.cache)
    except SamebitsError as error:
        sys.stderr.write(f"{error}\n")
        _emit(error.to_dict())
        return error.exit_code
    _emit(asdict(prepared))
    return 0


def _folder(model: Model, root: Path) -> CachedFolder:
    if model.family == "foreign":
        raise InputError(
            "model.family",
            found="'foreign'",
            accepted="a family that the kit computes",
            next_step="A refusal is recorded by building the engine on its config.json; there are no weights.",
        )
    if model.source == "smollm2-135m":
        gguf = smollm2.find_gguf()
        return cached_folder(
            f"{smollm2.GGUF_SHA256}-{model.dtype}",
            lambda folder: smollm2.convert(gguf, model.dtype, _announced(model, folder)),
            root=root,
            pinned={WEIGHTS: smollm2.WEIGHTS_SHA256[model.dtype]},
        )
    config = seeded_config(model)
    # The recipe's own numbers name the folder, and the scheme by which bits are drawn from them.
    key = sha256_bytes(json.dumps([SCHEME, model.model_dump(), config], sort_keys=True).encode())
    return cached_folder(
        f"seeded-{key}",
        lambda folder: save_folder(_announced(model, folder), config, seeded_weights(model)),
        root=root,
    )


def _announced(model: Model, folder: Path) -> Path:
    sys.stderr.write(f"model: {_BUILDING[model.source]}\n")
    return folder


def _read(path: Path) -> Model:
    try:
        data: Any = json.loads(path.read_bytes())
    except OSError as error:
        found = error.strerror or "unreadable"
    except ValueError as error:
        found = f"not JSON ({error})"
    else:
        return parse(Model, data, source=path.name)
    raise InputError(str(path), found=found, accepted="a recipe's model as JSON", next_step="Check the file.")


def _emit(line: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    sys.exit(main())
