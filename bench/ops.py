"""What exactness costs: each op of the native set against the plain one, at SmolLM2-135M's shapes, in one run.

``python bench/ops.py [--json] [--dtype bfloat16] [--threads 2] [--seconds 0.2]``.  The two sets take turns call by
call, and each one's fastest call counts, so a busy machine slows both alike.  *ratio* is native's time over plain's.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from samebits.ops import OpSet, open_op_set
from samebits.ops.opset import KEYS, VALUES

HIDDEN, INTER, HEADS, KV_HEADS, SIZE, VOCABULARY = 576, 1536, 9, 3, 64, 49152
SLOTS = 512
DECODE = [1] * 16
PREFILL = [96, 64, 112, 80, 128, 100, 72, 90]
MIN_ROUNDS = 4

Case = tuple[str, str, int, Callable[[OpSet], object]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    op: str
    shape: str
    native_tokens_per_s: int
    plain_tokens_per_s: int
    ratio: float


class Layout:
    """The part of a ``Batch`` that attention reads."""

    def __init__(self, lengths: list[int], offset: int, dtype: torch.dtype) -> None:
        self.starts = [0]
        for length in lengths:
            self.starts.append(self.starts[-1] + length)
        self.offsets = [offset] * len(lengths)
        row = (KV_HEADS, SIZE)
        self.caches = {name: torch.zeros(len(lengths), SLOTS, *row, dtype=dtype) for name in (KEYS, VALUES)}

    def gather(self, layer: int, name: str) -> Tensor:
        del layer
        return self.caches[name]


def cases(dtype: torch.dtype) -> Iterator[Case]:
    """Every op, at decode (one token of each of 16 sequences) and at prefill (8 prompts)."""

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=dtype)

    for phase, lengths in (("decode", DECODE), ("prefill", PREFILL)):
        t = sum(lengths)
        for name, n, k in (
            ("query, key, value", HIDDEN + 2 * KV_HEADS * SIZE, HIDDEN),
            ("gate, up", INTER, HIDDEN),
            ("down", HIDDEN, INTER),
            ("head", VOCABULARY, HIDDEN),
        ):
            if name == "head" and phase == "prefill":
                continue
            x, w = draw(t, k), draw(n, k) * 0.05
            yield f"linear: {name}", f"{phase} {t}×{k}→{n}", t, lambda ops, x=x, w=w: ops.linear(x, w)
        layout = Layout(lengths, 200 if phase == "decode" else 0, dtype)
        q = draw(t, HEADS, SIZE)
        for cache in layout.caches.values():
            for b, length in enumerate(lengths):
                end = layout.offsets[b] + length
                cache[b, :end] = draw(end, KV_HEADS, SIZE)
        yield (
            "attention",
            f"{phase} {len(lengths)}×{SLOTS} slots",
            t,
            lambda ops, q=q, layout=layout: ops.attention(q, layout, 0),
        )
        h, w = draw(t, HIDDEN), draw(HIDDEN)
        yield "rms_norm", f"{phase} {t}×{HIDDEN}", t, lambda ops, h=h, w=w: ops.rms_norm(h, w, 1e-5)
        g, u = draw(t, INTER), draw(t, INTER)
        yield "swiglu", f"{phase} {t}×{INTER}", t, lambda ops, g=g, u=u: ops.swiglu(g, u)
        angle = torch.rand(t, SIZE // 2)
        yield "rope", f"{phase} {t}×{HEADS}×{SIZE}", t, lambda ops, q=q, a=angle: ops.rope(q, a.cos(), a.sin())
    logits, ids = draw(64, VOCABULARY), torch.randint(VOCABULARY, (64,))
    yield "token_logprobs", f"64×{VOCABULARY}", 64, lambda ops: ops.token_logprobs(logits, ids)


def measure(case: Case, seconds: float) -> Result:
    """Both sets in turn until each has had ``seconds``; at least three calls each."""
    op, shape, tokens, call = case
    sets = [open_op_set("native"), open_op_set("plain")]
    best = [float("inf")] * 2
    spent, rounds = 0.0, 0
    while spent < 2 * seconds or rounds < MIN_ROUNDS:
        for i, ops in enumerate(sets):
            start = time.perf_counter()
            call(ops)
            took = time.perf_counter() - start
            spent += took
            if rounds:  # the first call warms up
                best[i] = min(best[i], took)
        rounds += 1
    return Result(
        op=op,
        shape=shape,
        native_tokens_per_s=round(tokens / best[0]),
        plain_tokens_per_s=round(tokens / best[1]),
        ratio=round(best[0] / best[1], 3),
    )


def main() -> None:
    """Measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.2, help="per op and set")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    with torch.inference_mode():
        results = [measure(case, arguments.seconds) for case in cases(getattr(torch, arguments.dtype))]
    run = {"torch": torch.__version__, "dtype": arguments.dtype, "threads": arguments.threads}
    if arguments.json:
        print(json.dumps({**run, "results": [asdict(result) for result in results]}, ensure_ascii=False, indent=2))
        return
    table = Table("op", "shape", "native, tokens/s", "plain, tokens/s", "ratio", title=" ".join(map(str, run.values())))
    for result in results:
        fields = asdict(result)
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in fields.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
