"""Reading ahead on another thread: Parquet decoding releases the GIL, so it overlaps with the comparison."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")

_AHEAD = 2


def prefetched(source: Iterator[Item]) -> Iterator[Item]:
    """The items of ``source`` in order, a few of them fetched before they are asked for.

    Its exception is raised at its own place in the order.  ``source`` yields no None.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="evidence") as pool:
        waiting = deque(pool.submit(next, source, None) for _ in range(_AHEAD))
        while (item := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, source, None))
            yield item
