from __future__ import annotations

from samebits.actor.packing import in_request_order, pack_of_each, recompute_packing, train_packing


def test_recompute_packs_in_request_order():
    assert recompute_packing(5, 2) == [[0, 1], [2, 3], [4]]


def test_training_deals_the_reversed_order():
    assert train_packing(5, 3) == [[4, 2, 0], [3, 1]]
    assert train_packing(4, 9) == [[3, 2, 1, 0]]


def test_pack_of_each():
    assert pack_of_each([[4, 2, 0], [3, 1]]) == [0, 1, 0, 1, 0]


def test_in_request_order():
    assert in_request_order([[2, 0], [1]], [["c", "a"], ["b"]]) == ["a", "b", "c"]
