"""Weight digests against BLAKE3 alone on the same bytes, interleaved in one run: ``python bench/digest.py``.

Target (design: speed): the ratio is 1, the digest costs what the hash library costs.  Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from blake3 import blake3

from samebits.integrity import digests

# SmolLM2-135M's parameters, in bf16: one large table, many matrices, many small norms.
LAYER = [(576, 576), (192, 576), (192, 576), (576, 576), (1536, 576), (1536, 576), (576, 1536), (576,), (576,)]


def model() -> dict[str, torch.Tensor]:
    shapes = [(49152, 576), *(LAYER * 30), (576,)]
    return {str(index): torch.randn(shape).to(torch.bfloat16) for index, shape in enumerate(shapes)}


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    tensors = model()
    total = sum(tensor.nbytes for tensor in tensors.values())
    flat = torch.cat([tensor.reshape(-1).view(torch.uint8) for tensor in tensors.values()]).numpy().data
    ours, alone = [], []
    for _ in range(options.repeats):
        ours.append(seconds(lambda: digests(tensors, threads=options.threads)))
        alone.append(seconds(lambda: blake3(flat, max_threads=options.threads).digest()))
    mine, theirs = statistics.median(ours), statistics.median(alone)
    line = {
        "benchmark": "digest",
        "bytes": total,
        "threads": options.threads,
        "gigabytes_per_second": round(total / mine / 1e9, 2),
        "blake3_gigabytes_per_second": round(total / theirs / 1e9, 2),
        "time_over_blake3": round(mine / theirs, 3),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
