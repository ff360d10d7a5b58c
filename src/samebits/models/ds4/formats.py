"""How keys are rounded on both sides, and what each layer leaves in the caches."""

from __future__ import annotations

import torch

from samebits.models.ds4.compressor import state_width, state_window
from samebits.models.ds4.config import OVERLAPPING, Ds4Config
from samebits.models.family import Cache
from samebits.ops.rows import Fp8Rows

WINDOW_PAGE = 16
ENTRY_PAGE_TOKENS = 128


def key_format(config: Ds4Config) -> Fp8Rows | None:
    """Of window keys and compressed entries; None: as they are."""
    if config.kv_cache_format == "auto":
        return None
    return Fp8Rows(width=config.head_dim, rope=config.qk_rope_head_dim, block=config.kv_cache_block)


def index_format(config: Ds4Config) -> Fp8Rows | None:
    """Of the indexer's keys, and of its queries, which are not cached."""
    if config.kv_cache_format == "auto":
        return None
    return Fp8Rows(width=config.index_head_dim, rope=0, block=config.index_head_dim, wide_scales=True)


def caches(config: Ds4Config, layer: int) -> list[Cache]:
    """``window`` keys; ``state`` and ``entries`` of a compressor; ``index_state`` and ``index`` of an indexer.

    Pages as vLLM's: 16 window tokens, 128 tokens' entries, 4 or 8 tokens of state.
    """
    ratio, width = config.compress_ratios[layer], config.head_dim
    window = Cache(
        name="window",
        row_shape=(width,),
        window=config.sliding_window,
        rows_per_page=WINDOW_PAGE,
        format=key_format(config),
    )
    if not ratio:
        return [window]
    found = [
        window,
        _state("state", width, ratio),
        Cache(
            name="entries",
            row_shape=(width,),
            stride=ratio,
            rows_per_page=max(ENTRY_PAGE_TOKENS // ratio, 1),
            format=key_format(config),
        ),
    ]
    if ratio == OVERLAPPING:
        size = config.index_head_dim
        found.append(_state("index_state", size, ratio))
        found.append(
            Cache(
                name="index",
                row_shape=(size,),
                stride=ratio,
                rows_per_page=ENTRY_PAGE_TOKENS // ratio,
                format=index_format(config),
            )
        )
    return found


def _state(name: str, width: int, ratio: int) -> Cache:
    return Cache(
        name=name,
        row_shape=(2, state_width(ratio, width)),
        dtype=torch.float32,
        window=state_window(ratio),
        rows_per_page=4 if ratio == OVERLAPPING else 8,
    )
