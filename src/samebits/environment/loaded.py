"""Which kernel libraries a process has really loaded, by digest.

What is installed is compared with the row before a run; what is *loaded* is only known once something has computed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from samebits.hashing import sha256_file

COMPUTING: Final = frozenset({"deep_gemm", "flash_attn", "flashinfer", "nvidia", "torch", "triton", "vllm"})
"""Top folders under site-packages whose shared libraries compute."""

MAPS: Final = Path("/proc/self/maps")


def loaded_libraries() -> dict[str, str]:
    """sha256 of each kernel library that this process has mapped, by its path under site-packages, sorted.

    Takes seconds where CUDA's libraries are among them.
    """
    found = {name: path for path in _mapped() if (name := _under_site_packages(path)) is not None}
    with ThreadPoolExecutor() as pool:
        digests = pool.map(sha256_file, found.values())
        return dict(sorted(zip(found, digests, strict=True)))


def _mapped() -> Iterable[Path]:
    """Files that are mapped here and are shared libraries; one that was replaced since shows as deleted, and is not."""
    names = {line.split(maxsplit=5)[5] for line in MAPS.read_text().splitlines() if len(line.split(maxsplit=5)) > 5}  # noqa: PLR2004 -- the path is the sixth column
    return [Path(name) for name in sorted(names) if ".so" in Path(name).name and Path(name).is_file()]


def _under_site_packages(path: Path) -> str | None:
    for folder in sys.path:
        if folder and path.is_relative_to(folder):
            name = path.relative_to(folder)
            return str(name) if name.parts[0] in COMPUTING else None
    return None
