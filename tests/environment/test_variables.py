"""What a worker inherits, what is dropped, what the kit sets."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from samebits.environment import dropped, worker_environment
from samebits.errors import InputError

OURS = {
    "OMP_NUM_THREADS": "2",
    "MKL_NUM_THREADS": "2",
    "OPENBLAS_NUM_THREADS": "2",
    "OMP_DYNAMIC": "FALSE",
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "2000",
    "MKL_DYNAMIC": "FALSE",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
    "PYTHONUTF8": "1",
    "PYTHONSAFEPATH": "1",
    "HF_HUB_OFFLINE": "1",
}
INHERITED = {
    "PATH": "/usr/bin",
    "HOME": "/home/somebody",
    "LANG": "C.UTF-8",
    "LC_ALL": "C",
    "TMPDIR": "/scratch",
    "TZ": "UTC",
    "VIRTUAL_ENV": "/venv",
    "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
    "SSL_CERT_FILE": "/etc/ssl/ca.pem",
    "XDG_CACHE_HOME": "/cache",
    "CUDA_VISIBLE_DEVICES": "1",
}
SCRUBBED = [
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ALGO"),
    *("VLLM_BATCH_INVARIANT", "VLLM_CPU_ATTN_SPLIT_KV", "VERL_FULL_DETERMINISM"),
    *("PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONHASHSEED", "PYTHONOPTIMIZE"),
    *("OMP_NUM_THREADS", "OMP_PROC_BIND", "KMP_AFFINITY", "GOMP_CPU_AFFINITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS"),
    *("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "DNNL_DEFAULT_FPMATH_MODE", "ATEN_CPU_CAPABILITY"),
    *("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "TORCHDYNAMO_DISABLE"),
    *("LD_PRELOAD", "MALLOC_CONF", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "http_proxy"),
]


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {**INHERITED, **dict.fromkeys(SCRUBBED, "7")}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("environ")
def test_nothing_passes_but_the_allow_list() -> None:
    assert worker_environment(2) == {**INHERITED, **OURS}


def test_the_dropped_names_are_told_without_values() -> None:
    assert dropped({**INHERITED, **dict.fromkeys(SCRUBBED, "7")}) == sorted(SCRUBBED)


@pytest.mark.usefixtures("environ")
def test_declared_variables_are_added_and_replace_inherited_ones() -> None:
    extra = {"VLLM_BATCH_INVARIANT": "1", "PATH": "/opt/bin"}
    assert worker_environment(2, extra) == {**INHERITED, **OURS, **extra}


def test_declared_variables_never_replace_what_the_kit_sets() -> None:
    with pytest.raises(InputError) as caught:
        worker_environment(2, {"OMP_NUM_THREADS": "4"})
    assert str(caught.value) == (
        "environment variable OMP_NUM_THREADS: found '4'; accepted: '2', which the kit sets. "
        "Leave it out; the thread count is a setting of the recipe."
    )


@pytest.mark.parametrize("threads", [0, -1])
def test_no_threads_are_absurd(threads: int) -> None:
    with pytest.raises(InputError) as caught:
        worker_environment(threads)
    assert str(caught.value) == (
        f"threads: found {threads}; accepted: 1 or more. Ask for at least one thread per worker."
    )


def test_a_real_python_starts_in_it() -> None:
    program = "import os, sys; print(os.environ['OMP_NUM_THREADS'], hash('a'), sys.flags.safe_path)"
    command = [sys.executable, "-c", program]
    first, second = (subprocess.run(command, env=worker_environment(3), capture_output=True, check=True) for _ in "ab")
    assert first.stdout == second.stdout
    assert first.stdout.split()[0::2] == [b"3", b"True"]
