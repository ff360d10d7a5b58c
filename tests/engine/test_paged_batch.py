from __future__ import annotations

import pytest
import torch

from samebits.engine.native.cache import PagedCache
from samebits.engine.native.paged_batch import PagedBatch, Span
from samebits.models import Cache

SIZE, PAGES = 4, 6


class TwoKinds:
    """A decoder, as far as a cache knows it: layer 1 leaves more behind than layer 0."""

    layers = 2

    def caches(self, layer):
        kinds = [Cache(name="k", row_shape=(2, 3))]
        return [*kinds, Cache(name="state", row_shape=(5,))] if layer == 1 else kinds


@pytest.fixture
def cache():
    return PagedCache(TwoKinds(), pages=PAGES, page_size=SIZE, dtype=torch.float32)


def rows(count, start=1.0):
    return torch.arange(count * 6, dtype=torch.float32).reshape(count, 2, 3) + start


def test_shape_of_a_batch(cache):
    spans = [Span(token_ids=[5, 6, 7], start=3, tables=[[2, 4]]), Span(token_ids=[8], start=0, tables=[[1]])]
    batch = PagedBatch(cache, spans, key_slots=10)
    assert batch.token_ids.tolist() == [5, 6, 7, 8]
    assert batch.positions.tolist() == [3, 4, 5, 0]
    assert batch.starts == [0, 3, 4]
    assert batch.offsets == [3, 0]
    assert batch.token_ids.dtype == batch.positions.dtype == torch.int64


@pytest.mark.parametrize("key_slots", [8, 10])
def test_rows_come_back_where_they_belong_with_zeros_behind(cache, key_slots):
    first = [Span(token_ids=[1] * 3, start=0, tables=[[5, 2]]), Span(token_ids=[1] * 2, start=0, tables=[[3]])]
    batch = PagedBatch(cache, first, key_slots=key_slots)
    batch.store(0, "k", rows(5))
    second = [Span(token_ids=[1], start=2, tables=[[3]]), Span(token_ids=[1] * 4, start=3, tables=[[5, 2]])]
    batch = PagedBatch(cache, second, key_slots=key_slots)
    batch.store(0, "k", rows(5, start=101.0))
    expected = torch.zeros(2, key_slots, 2, 3)
    expected[0, :3] = torch.cat([rows(5)[3:], rows(5, start=101.0)[:1]])
    expected[1, :7] = torch.cat([rows(5)[:3], rows(5, start=101.0)[1:]])
    gathered = batch.gather(0, "k")
    assert torch.equal(gathered, expected)
    assert gathered.is_contiguous()
    assert torch.equal(batch.packed(0, "k"), torch.cat([expected[0, :3], expected[1, :7]]))


def test_layers_and_names_are_apart(cache):
    batch = PagedBatch(cache, [Span(token_ids=[1], start=0, tables=[[1]])], key_slots=4)
    batch.store(0, "k", rows(1, start=1.0))
    batch.store(1, "k", rows(1, start=50.0))
    batch.store(1, "state", torch.full((1, 5), 9.0))
    assert batch.gather(0, "k")[0, 0, 0, 0] == 1.0
    assert batch.gather(1, "k")[0, 0, 0, 0] == 50.0
    assert batch.gather(1, "state")[0].tolist() == [[9.0] * 5, [0.0] * 5, [0.0] * 5, [0.0] * 5]


def test_zeroed_pages_hold_nothing_of_their_former_owner(cache):
    old = PagedBatch(cache, [Span(token_ids=[1] * 8, start=0, tables=[[1, 2]])], key_slots=8)
    for layer in (0, 1):
        old.store(layer, "k", torch.full((8, 2, 3), torch.nan))
    old.store(1, "state", torch.full((8, 5), torch.nan))
    cache.zero([2])
    new = PagedBatch(cache, [Span(token_ids=[1], start=0, tables=[[2]])], key_slots=8)
    for layer in (0, 1):
        assert torch.equal(new.gather(layer, "k"), torch.zeros(1, 8, 2, 3))
        assert old.gather(layer, "k")[0, :4].isnan().all()
    assert torch.equal(new.gather(1, "state"), torch.zeros(1, 8, 5))


def test_zeroing_no_page_changes_nothing(cache):
    batch = PagedBatch(cache, [Span(token_ids=[1], start=0, tables=[[1]])], key_slots=4)
    batch.store(0, "k", rows(1))
    cache.zero([])
    assert torch.equal(batch.gather(0, "k")[0, :1], rows(1))
