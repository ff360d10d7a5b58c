"""The machine as a certificate records it: what decides bits, and nothing that says whose machine it is.

No host name, no user name, no path, no GPU UUID.  Two machines may be compared bit for bit only where these agree: on
a CPU the instruction set chooses the kernel and the L2 size chooses the tile.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from samebits.environment.variables import is_allowed

Description = dict[str, str | list[str]]

DECIDING_FLAGS: Final = re.compile(
    r"""sse4_1|sse4_2|avx|f16c|fma|fma4
      |avx2|avx_vnni(_int8|_int16)?|avx_ifma|avx_ne_convert
      |avx512\w*|avx10\w*|amx_\w+
      |asimd\w*|neon|fp|fphp|fcma|sve\w*|sme(?!p)\w*|bf16|i8mm|ebf16""",
    re.VERBOSE,
)
"""CPU flags, as the Linux kernel spells them, by which oneDNN, MKL, OpenBLAS and ATen choose a kernel."""

SHOWN_VALUES: Final = ("LANG", "LANGUAGE", "LC_", "CUDA_DEVICE_ORDER")
"""Variables whose values name no place, person or device; of the others only the name is recorded."""

_CPUINFO: Final = Path("/proc/cpuinfo")
_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")


def describe() -> Description:
    """The environment for a certificate: keys in camelCase, values text or lists of text, no numbers.

    Keys that cannot be told on this machine are absent; ``gpus`` and ``gpuDriver`` are there only with a GPU.
    """
    cpu = _cpuinfo()
    description: dict[str, str | list[str] | None] = {
        "os": _operating_system(),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cpu": _cpu_name(cpu),
        "cpuCount": str(_usable_cpus()),
        "cpuFlags": _flags(cpu),
        "cpuCaches": _caches(),
        "memoryGiB": _memory_gib(),
        "python": platform.python_version(),
        "pythonImplementation": platform.python_implementation(),
        "variables": _variables(os.environ),
        **_gpus(),
    }
    return {key: value for key, value in description.items() if value}


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return f"macOS {platform.mac_ver()[0]}" if sys.platform == "darwin" else platform.system()


def _cpuinfo() -> dict[str, str]:
    """The kernel's words on the first CPU; empty where there is no /proc."""
    try:
        text = _CPUINFO.read_text(errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n", 1)[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _cpu_name(cpu: Mapping[str, str]) -> str | None:
    if "model name" in cpu and "cpu family" in cpu:
        # Virtual machines often say just "AMD EPYC"; the numbers tell the generation.
        numbers = f"family {cpu['cpu family']} model {cpu.get('model', '?')} stepping {cpu.get('stepping', '?')}"
        return f"{cpu['model name']} ({numbers})"
    if "CPU part" in cpu:
        return f"implementer {cpu.get('CPU implementer', '?')} part {cpu['CPU part']}"
    return platform.processor() or None


def _usable_cpus() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _flags(cpu: Mapping[str, str]) -> list[str]:
    flags = (cpu.get("flags") or cpu.get("Features") or "").split()
    return sorted({flag for flag in flags if DECIDING_FLAGS.fullmatch(flag)})


def _caches() -> list[str]:
    """For instance ``["L1d 32K", "L2 1024K"]``; attention tiles follow the L2 size."""
    found = []
    for index in sorted(_CACHES.glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
        found.append(f"L{level}{letter} {size}")
    return sorted(found)


def _memory_gib() -> str | None:
    try:
        return str(round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30))
    except (OSError, ValueError):
        return None


def _variables(environ: Mapping[str, str]) -> list[str]:
    """Allow-listed variables that are set: ``NAME=value`` where the value tells nothing private, else ``NAME``."""
    names = sorted(name for name in environ if is_allowed(name))
    return [f"{name}={environ[name]}" if name.startswith(SHOWN_VALUES) else name for name in names]


def _gpus() -> Description:
    """``gpus`` as lines ``4 × NVIDIA H200`` and ``gpuDriver``; empty where nvidia-smi is absent or finds none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    try:
        text = subprocess.run(
            [program, "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = [tuple(cell.strip() for cell in line.rsplit(",", 1)) for line in text.splitlines() if "," in line]
    names = [name for name, _ in rows]
    return {
        "gpus": [f"{names.count(name)} × {name}" for name in sorted(set(names))],
        "gpuDriver": ", ".join(sorted({driver for _, driver in rows})),
    }
