"""One sequence's pages: a block table for each group of caches, all from one allocator.

Caches with the same stride, window and page size fill up alike, so they share a table; a dense decoder has one group.
After vLLM's hybrid KV-cache manager: a page belongs to one group of one sequence, and a window's pages go back as soon
as no query can reach them.  Pure Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samebits.engine.native.pages import ZERO_PAGE, PageAllocator


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """How a group of caches fills: ``rows`` to a page, a row for every ``stride`` tokens, ``window`` tokens kept."""

    rows: int
    stride: int = 1
    window: int | None = None

    def pages(self, tokens: int) -> int:
        """Pages that a sequence of ``tokens`` tokens has begun."""
        return -(-(tokens // self.stride) // self.rows)

    def gone(self, computed: int) -> int:
        """Leading pages that nobody reads once ``computed`` tokens are in the cache."""
        return 0 if self.window is None else max(computed - self.window + 1, 0) // self.rows


class Tables:
    """The pages of sequence ``owner``; :data:`ZERO_PAGE` stands where one has gone back."""

    def __init__(self, groups: Sequence[Group], pages: PageAllocator, *, owner: int) -> None:
        self.tables: list[list[int]] = [[] for _ in groups]
        self._groups = groups
        self._pages = pages
        self._owner = owner

    @property
    def owned(self) -> list[int]:
        """All pages, group by group."""
        return [page for table in self.tables for page in table if page != ZERO_PAGE]

    def lacking(self, tokens: int) -> int:
        """Pages still to be taken for ``tokens`` tokens."""
        return sum(self._missing(tokens))

    def grow(self, tokens: int) -> None:
        """Take what ``tokens`` tokens need.

        Raises:
            PageError: fewer are free.
        """
        taken = self._pages.take(self.lacking(tokens), owner=self._owner)
        for table, count in zip(self.tables, self._missing(tokens), strict=True):
            table.extend(taken[:count])
            taken = taken[count:]

    def trim(self, computed: int) -> None:
        """Give back the pages that have left their windows, now that ``computed`` tokens are in the cache."""
        for group, table in zip(self._groups, self.tables, strict=True):
            gone = range(min(group.gone(computed), len(table)))
            self._pages.give_back([table[at] for at in gone if table[at] != ZERO_PAGE], owner=self._owner)
            table[: len(gone)] = [ZERO_PAGE] * len(gone)

    def give_back(self) -> None:
        """Give back everything."""
        self._pages.give_back(self.owned, owner=self._owner)
        self.tables = [[] for _ in self._groups]

    def _missing(self, tokens: int) -> list[int]:
        return [group.pages(tokens) - len(table) for group, table in zip(self._groups, self.tables, strict=True)]
