from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from samebits.actor.packing import in_request_order, pack_of_each, recompute_packing, train_packing

SIZES = st.integers(1, 60)


@given(SIZES, SIZES)
def test_both_packings_hold_every_trajectory_once_and_no_pack_too_many(count, pack):
    for packing in (recompute_packing(count, pack), train_packing(count, pack)):
        assert sorted(index for members in packing for index in members) == list(range(count))
        assert all(1 <= len(members) <= pack for members in packing)
        assert len(packing) == -(-count // pack)


@given(SIZES, SIZES)
def test_training_parts_neighbours_when_there_are_packs_to_part_them_into(count, pack):
    packs = pack_of_each(train_packing(count, pack))
    if max(packs) > 0:
        assert all(left != right for left, right in pairwise(packs))


@given(SIZES, SIZES)
def test_in_request_order_undoes_a_packing(count, pack):
    packing = train_packing(count, pack)
    assert in_request_order(packing, packing) == list(range(count))
