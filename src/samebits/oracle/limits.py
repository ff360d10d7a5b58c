"""How large evidence may be: known before anything is allocated for it.

Whoever signs evidence chooses its bytes, and a few kilobytes of Parquet can say "the same page, a billion times".
These limits are far above what a run leaves (a model of 140,000 tensors over eleven versions, 10^9 tokens) and bound
what judging can cost: time by rows, memory by pages and texts.
"""

from __future__ import annotations

from typing import Final

ROWS: Final = {
    "tokens": 1 << 30,
    "trajectories": 1 << 22,
    "commitments": 1 << 16,
    "refits": 1 << 22,
    "probes": 1 << 21,
    "decisions": 1 << 21,
    "events": 1 << 21,
    "counters": 1 << 18,
    "refusals": 1 << 12,
    "sampler": 1 << 19,
    "timings": 1 << 17,
    "facts": 1 << 12,
}
"""Rows of each table."""

GROUP_ROWS: Final = 1 << 20
"""Rows of one row group; the writer makes them of 2^17."""

FOOTER_BYTES: Final = 1 << 26
"""Of a file's footer: 2^30 tokens in row groups of 2^17 need a fifth of it."""

PAGE_BYTES: Final = 1 << 25
"""Of one page once decompressed; the writer makes them of about 2^20."""

CHUNK_BYTES: Final = 1 << 26
"""Of one column of one row group once decompressed."""

HEADER_BYTES: Final = 1 << 14
"""Of a page's header, which holds at most two short texts."""

TEXT_BYTES: Final = 1 << 16
"""Of one text in UTF-8."""

TEXTS_BYTES: Final = 1 << 31
"""Of all text columns of one file once decompressed; and of all texts of one table that is read row by row, each
counted as often as it stands there."""

ROUNDS: Final = 1 << 12
"""Rounds, and distinct policy versions of an arm: a recipe asks for at most 1001."""

RUNS: Final = 1 << 14
"""How often arm or round may change from one row to the next: twice the rounds of both arms."""

LAYERS: Final = 1 << 12
"""Distinct layers that are probed."""

PHASES: Final = 1 << 8
"""Distinct phases that are timed."""

REWARD_CHARACTERS: Final = 64
"""Of a reward as decimal text: sums are exact, and exact sums of long decimals are slow."""
