"""Run with vLLM's interpreter: ``gradients.py OUT.json OP_SET``.  Values and gradients of its ops against float64.

Writes for each op and dtype what was wrong, or nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from ops.dense import OPS, check_against_float64
from samebits.ops import open_op_set


def main(out: str, op_set: str) -> None:
    ops = open_op_set(op_set)
    found = {}
    for op in OPS:
        for dtype in (torch.bfloat16, torch.float32):
            try:
                check_against_float64(ops, op, dtype)
                found[f"{op} {dtype}"] = ""
            except AssertionError as error:
                found[f"{op} {dtype}"] = str(error) or "an assertion failed"
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
