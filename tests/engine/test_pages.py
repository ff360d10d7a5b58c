from __future__ import annotations

import pytest

from samebits.engine.native.pages import ZERO_PAGE, PageAllocator, PageError


def test_pages_are_counted():
    pages = PageAllocator(count=4, size=8)
    assert [pages.pages_for(tokens) for tokens in (0, 1, 8, 9)] == [0, 1, 1, 2]
    assert pages.take(3, owner=1) == [1, 2, 3]
    assert (pages.free, pages.in_use) == (1, 3)


def test_the_zero_page_is_never_handed_out():
    assert ZERO_PAGE not in PageAllocator(count=9, size=8).take(9, owner=0)


def test_pages_freed_last_are_handed_out_first():
    pages = PageAllocator(count=4, size=8)
    first = pages.take(2, owner=1)
    pages.take(1, owner=2)
    pages.give_back(first, owner=1)
    assert pages.take(2, owner=3) == first


def test_asking_for_more_than_there_is_takes_nothing():
    pages = PageAllocator(count=2, size=8)
    with pytest.raises(PageError, match=r"^3 pages asked for, 2 free$"):
        pages.take(3, owner=1)
    assert pages.free == 2


def test_double_free():
    pages = PageAllocator(count=2, size=8)
    taken = pages.take(1, owner=1)
    pages.give_back(taken, owner=1)
    with pytest.raises(PageError, match=r"^page 1 was given back by 1 but belongs to None$"):
        pages.give_back(taken, owner=1)


def test_freeing_one_page_twice_in_a_call():
    pages = PageAllocator(count=2, size=8)
    pages.take(1, owner=1)
    with pytest.raises(PageError, match=r"^pages \[1, 1\] were given back twice by 1$"):
        pages.give_back([1, 1], owner=1)
    assert pages.in_use == 1


def test_freeing_somebody_elses_page_frees_none():
    pages = PageAllocator(count=2, size=8)
    pages.take(1, owner=1)
    pages.take(1, owner=2)
    with pytest.raises(PageError, match=r"^page 2 was given back by 1 but belongs to 2$"):
        pages.give_back([1, 2], owner=1)
    assert pages.in_use == 2


def test_a_page_never_has_two_owners():
    pages = PageAllocator(count=2, size=8)
    pages.take(1, owner=1)
    pages._free.append(1)  # what a fault in this engine would do
    with pytest.raises(PageError, match=r"^page 1 belongs to 1 and was about to go to 2 too$"):
        pages.take(1, owner=2)


def test_fresh_pages_are_told_once_and_only_while_owned():
    pages = PageAllocator(count=3, size=8)
    gone = pages.take(1, owner=1)
    kept = pages.take(1, owner=2)
    pages.give_back(gone, owner=1)
    assert pages.take_fresh() == kept
    assert pages.take_fresh() == []
