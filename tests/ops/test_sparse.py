"""Rules of the sparse operations: ties, order, nothing dropped."""

from __future__ import annotations

import pytest
import torch

from samebits.ops import open_op_set
from samebits.ops.observer import Record
from samebits.ops.sinkhorn import sinkhorn

NATIVE = open_op_set("native")


def test_equal_scores_go_to_the_lower_position():
    scores = torch.tensor([[0.0, 3.0, 0.0, 3.0, -0.0, 1.0]])
    assert NATIVE.ranked(scores, 5).tolist() == [[1, 3, 5, 0, 2]]


def test_an_index_score_is_never_minus_zero():
    query, keys = -torch.ones(1, 2, 16), torch.ones(1, 300, 16)
    scores = NATIVE.index_scores(query, -torch.ones(1, 2), keys)
    assert scores.view(torch.int32).unique().tolist() == [0]


@pytest.mark.parametrize("name", ["native", "plain"])
def test_dispatch_drops_nothing_whatever_the_load(name):
    routes = torch.zeros(100, 2, dtype=torch.int64)
    routes[:, 1] = torch.arange(100) % 3 + 1
    x = torch.arange(1.0, 101.0)[:, None].expand(-1, 16).contiguous()
    plan = open_op_set(name).dispatch(routes, 6)
    assert plan.used == [100, 34, 33, 33, 0, 0]
    assert sum(plan.counts) == len(plan.source)
    assert torch.equal(plan.back(plan.tokens(x)), x[:, None].expand(-1, 2, -1))
    of_place = [expert for expert, count in enumerate(plan.counts) for _ in range(count)]
    assert torch.equal(torch.tensor(of_place)[plan.places], routes)
    slots = torch.randn(100, 2, 16)
    assert torch.equal(plan.back(plan.slots(slots)), slots)


@pytest.mark.parametrize("name", ["native", "plain"])
def test_each_place_meets_its_expert(name):
    generator = torch.Generator().manual_seed(0)
    routes = torch.randint(0, 5, (70, 3), generator=generator)
    x, weight = torch.randn(70, 32, generator=generator), torch.randn(5, 48, 32, generator=generator)
    ops = open_op_set(name)
    plan = ops.dispatch(routes, 5)
    found = plan.back(ops.grouped_linear(plan.tokens(x), weight, plan, torch.float32))
    expected = torch.einsum("tk,tsnk->tsn", x.double(), weight.double()[routes])
    torch.testing.assert_close(found, expected.float())


def test_sinkhorn_is_the_plain_one_and_nearly_doubly_stochastic():
    logits = torch.randn(333, 4, 4, generator=torch.Generator().manual_seed(0))
    found = NATIVE.sinkhorn(logits, 20, 1e-6)
    torch.testing.assert_close(found, sinkhorn(logits, 20, 1e-6))
    torch.testing.assert_close(found.sum(1), torch.ones(333, 4), rtol=0, atol=1e-5)
    torch.testing.assert_close(found.sum(2), torch.ones(333, 4), rtol=0, atol=1e-3)
    assert not torch.equal(found, NATIVE.sinkhorn(logits, 19, 1e-6))


def test_a_sink_takes_weight_and_gives_nothing():
    query, keys = torch.zeros(1, 1, 64), torch.ones(1, 3, 64)
    visible = torch.tensor([[True, False, True]])
    found = NATIVE.attend(query, keys, visible, torch.zeros(1))
    torch.testing.assert_close(found, torch.full((1, 1, 64), 2 / 3))


def test_a_record_knows_rows_by_sequence_and_position():
    one, other = Record(), Record()
    one.of([0, 3], [0, 2, 5], [0, 0]).decided(1, "routes", torch.tensor([[1, 2], [3, 4], [5, 6], [7, 8], [9, 9]]))
    step = other.of([3], [0, 2], [0])
    step.decided(1, "routes", torch.tensor([[0, 0], [7, 8]]))  # replaced below
    step.happened(1, "tie", torch.tensor([True, True]))
    step = other.of([3, 0], [0, 1, 3], [0, 0])
    step.decided(1, "routes", torch.tensor([[5, 6], [1, 2], [3, 4]]))
    step.happened(1, "tie", torch.tensor([True, False, False]))
    other.of([3], [0, 1], [2]).decided(1, "routes", torch.tensor([[9, 8]]))
    assert one.digests({0: 2, 3: 2}) == other.digests({0: 2, 3: 2})
    assert one.digests({0: 2, 3: 3}) != other.digests({0: 2, 3: 3})
    assert other.counts() == {("tie", 1): 2}
    step.reached(1, "load", 5)
    step.reached(1, "load", 3)
    assert other.levels == {("load", 1): 5}
