"""Verification by size of the evidence: ``python bench/scale.py [--tokens 100000 1000000 …] [--json]``.

Each size is a whole certificate, made and signed here, verified in a process of its own; *peak* is the most memory that
this process ever had (VmHWM).  Memory must not grow with the number of tokens.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from synthetic import KEY, LongRun

from samebits.certificate import evidence_folder
from samebits.verify import verify

MIB = 1 << 20


def measure(tokens: int) -> dict[str, Any]:
    """One size, from nothing to a verified certificate."""
    with tempfile.TemporaryDirectory(prefix="samebits-scale-") as scratch:
        path, key = Path(scratch) / "long.sigstore.json", Path(scratch) / "key.pub.pem"
        key.write_bytes(KEY.public.pem())
        began = time.perf_counter()
        run = LongRun(tokens)
        run.sign(path)
        made = time.perf_counter() - began
        output = subprocess.run(
            [sys.executable, __file__, "--child", str(path), str(key)], check=True, capture_output=True
        )
        size = sum(file.stat().st_size for file in evidence_folder(path).iterdir())
    return {
        "tokens": run.tokens,
        "evidence_mib": round(size / MIB, 1),
        "made_seconds": round(made, 1),
        **json.loads(output.stdout),
    }


def child(path: Path, key: Path) -> dict[str, Any]:
    """Verifies in this process and says what it took."""
    began = time.perf_counter()
    report = verify(path, key)
    return {
        "exit_code": report.exit_code,
        "verify_seconds": round(time.perf_counter() - began, 2),
        "peak_mib": round(peak_bytes() / MIB, 1),
        "reasons": report.reasons[:3],
    }


def peak_bytes() -> int:
    """The most memory that this process ever had.  ``getrusage`` would count its parent's, inherited over exec."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child)))
        return
    lines = [measure(tokens) for tokens in options.tokens]
    growth = round(lines[-1]["peak_mib"] - lines[0]["peak_mib"], 1)
    if options.json:
        print(json.dumps({"benchmark": "scale", "sizes": lines, "growth_mib": growth}))
        return
    table = Table("tokens", "evidence MiB", "made in s", "verified in s", "exit code", "peak MiB")
    names = ("tokens", "evidence_mib", "made_seconds", "verify_seconds", "exit_code", "peak_mib")
    for line in lines:
        table.add_row(*(str(line[name]) for name in names))
    Console().print(table)


if __name__ == "__main__":
    main()
