"""The allocator of cache pages (vLLM calls them blocks): who owns which, and which are free.

After Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention" (SOSP 2023).
Page 0 is never handed out: it stays zero, and block tables are filled up with it, so that reading past a sequence's
end gives zeros.  Pure Python; the tensors are in ``cache``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ZERO_PAGE: Final = 0
"""The page that is always zero."""


class PageError(RuntimeError):
    """The allocator was misused: a bug in this engine, never the user's doing."""


class PageAllocator:
    """``count`` pages, numbered from 1, each of ``size`` tokens and of one owner at a time.

    The page freed last is handed out first: reuse is the common case, not a rare one that hides mistakes.
    """

    def __init__(self, *, count: int, size: int) -> None:
        self.count = count
        self.size = size
        self._free = list(range(count, 0, -1))
        self._owner: dict[int, int] = {}
        self._fresh: list[int] = []

    @property
    def free(self) -> int:
        """Pages that nobody owns."""
        return len(self._free)

    @property
    def in_use(self) -> int:
        """Pages that somebody owns."""
        return len(self._owner)

    def pages_for(self, tokens: int) -> int:
        """Pages that hold ``tokens`` tokens."""
        return -(-tokens // self.size)

    def take(self, count: int, *, owner: int) -> list[int]:
        """``count`` pages for ``owner``, whose contents must be zeroed before use (:meth:`take_fresh`).

        Raises:
            PageError: fewer than ``count`` are free.
        """
        if count > self.free:
            raise PageError(f"{count} pages asked for, {self.free} free")
        taken = [self._free.pop() for _ in range(count)]
        for page in taken:
            if page in self._owner:
                raise PageError(f"page {page} belongs to {self._owner[page]} and was about to go to {owner} too")
            self._owner[page] = owner
        self._fresh += taken
        return taken

    def give_back(self, pages: Sequence[int], *, owner: int) -> None:
        """Free ``pages``.

        Raises:
            PageError: one of them is not ``owner``'s, or was freed before; then none is freed.
        """
        for page in pages:
            if self._owner.get(page) != owner:
                raise PageError(f"page {page} was given back by {owner} but belongs to {self._owner.get(page)}")
        if len(set(pages)) != len(pages):
            raise PageError(f"pages {list(pages)} were given back twice by {owner}")
        for page in pages:
            del self._owner[page]
        self._free += reversed(pages)

    def take_fresh(self) -> list[int]:
        """Pages handed out since the last call: their former owners' contents must go now."""
        fresh, self._fresh = self._fresh, []
        return [page for page in dict.fromkeys(fresh) if page in self._owner]
