"""The variables a worker process gets: an allow list, and the ones the kit sets itself.

A launcher's leftovers decide bits silently: ``RANK`` turns a worker into a rank of somebody else's job, ``OMP_*`` and
``ONEDNN_*`` choose kernels, ``VLLM_*`` flips the aligned switch.  So nothing is inherited by default.  What a row
needs beyond this, its lock file says, and the caller passes it as ``extra``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from samebits.errors import InputError

ALLOWED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PATH": "finds nvidia-smi, compilers and the interpreter of another virtual environment",
        "HOME": "libraries that look for ~ fail without it",
        "USER": "getpass, which torch's cache folder asks, fails for a user id without an account",
        "LOGNAME": "as USER",
        "LANG": "the text encoding of messages from the system",
        "LANGUAGE": "as LANG",
        "TZ": "times in logs",
        "TMPDIR": "scratch files where there is room for them",
        "VIRTUAL_ENV": "the packages that the parent saw",
        "LD_LIBRARY_PATH": "driver and compute libraries of a container; each library loaded is recorded by digest",
        "SSL_CERT_FILE": "certificate authorities of the site",
        "SSL_CERT_DIR": "as SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE": "as SSL_CERT_FILE",
        "CURL_CA_BUNDLE": "as SSL_CERT_FILE",
        "XDG_CACHE_HOME": "caches where there is room for them",
        "XDG_RUNTIME_DIR": "as TMPDIR, for rootless containers",
        "CUDA_VISIBLE_DEVICES": "which GPU is ours on a shared machine",
        "CUDA_DEVICE_ORDER": "what the numbers in CUDA_VISIBLE_DEVICES mean",
        "NVIDIA_VISIBLE_DEVICES": "as CUDA_VISIBLE_DEVICES, for containers",
        "NVIDIA_DRIVER_CAPABILITIES": "which driver libraries a container is given",
        "CUDA_HOME": "compilers of the CUDA toolkit, for kernels built at run time",
    }
)
"""Names that pass, each with the reason."""

ALLOWED_PREFIXES: Final = ("LC_",)
"""Locale categories; together with LANG."""


def worker_environment(threads: int, extra: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The whole environment of a worker that computes with ``threads`` threads.

    ``extra`` are variables that the row or the caller declares; they may replace an inherited one, never one that the
    kit sets.

    Raises:
        InputError: ``threads`` below 1, or ``extra`` names a variable that the kit sets.
    """
    if threads < 1:
        raise InputError(
            "threads", found=threads, accepted="1 or more", next_step="Ask for at least one thread per worker."
        )
    ours = _ours(threads)
    for name in sorted(extra):
        if name in ours:
            raise InputError(
                f"environment variable {name}",
                found=repr(extra[name]),
                accepted=f"{ours[name]!r}, which the kit sets",
                next_step="Leave it out; the thread count is a setting of the recipe.",
            )
    inherited = {name: value for name, value in os.environ.items() if is_allowed(name)}
    return {**inherited, **extra, **ours}


def dropped(environ: Mapping[str, str]) -> list[str]:
    """Names in ``environ`` that no worker inherits, sorted.  Never values: they may be secrets."""
    return sorted(name for name in environ if not is_allowed(name))


def is_allowed(name: str) -> bool:
    """Whether a worker inherits the variable ``name``."""
    return name in ALLOWED or name.startswith(ALLOWED_PREFIXES)


def _ours(threads: int) -> dict[str, str]:
    count = str(threads)
    return {
        # How many threads share a reduction decides its order, and so its bits.
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        # Otherwise the libraries take fewer threads when the machine is busy.
        "OMP_DYNAMIC": "FALSE",
        "MKL_DYNAMIC": "FALSE",
        # A thread that waits soon sleeps.  Endless spinning is ten times slower on a busy machine: the waiting thread
        # takes the core from the one it waits for.  GNU OpenMP, which torch brings, may spin for some microseconds.
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "2000",
        # Sets and dicts of strings iterate in the same order in every run.
        "PYTHONHASHSEED": "0",
        # A worker that is killed has its last words in the log already.
        "PYTHONUNBUFFERED": "1",
        # The log is UTF-8 whatever the locale.
        "PYTHONUTF8": "1",
        # A file called torch.py in the current folder is not torch.
        "PYTHONSAFEPATH": "1",
        # Weights come from a file whose digest was checked, never from a hub.
        "HF_HUB_OFFLINE": "1",
    }
