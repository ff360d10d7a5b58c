"""What a record says of two sides that computed the same rows in other forwards."""

from __future__ import annotations

import torch

from samebits.observed import Decision, Event, Observed
from samebits.ops.observer import Record


def test_rows_computed_again_count_once_and_rows_past_the_end_not_at_all():
    whole, parts = Record(), Record()
    rows = torch.tensor([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]])
    seen = whole.of([0, 1], [0, 3, 5], [0, 0])
    seen.decided(2, "routes", rows)
    seen.happened(2, "tie", torch.tensor([1, 0, 1, 1, 1]))
    seen.reached(2, "load", 5)
    for key, first, last in ((0, 0, 2), (1, 3, 5), (0, 0, 3)):  # sequence 0 begins again
        start = 3 if key else 0
        part = parts.of([key], [0, last - first], [first - start])
        part.decided(2, "routes", rows[first:last])
        part.happened(2, "tie", torch.tensor([1, 0, 1, 1, 1])[first:last])
        part.reached(2, "load", last - first)
    lengths = {0: 3, 1: 1}
    found = whole.observed(lengths)
    (digest,) = whole.digests(lengths).values()
    assert found == Observed(
        decisions=[Decision(layer=2, what="routes", rows=4, digest=digest)],
        counts=[Event(layer=2, what="tie", value=3)],
        levels=[Event(layer=2, what="load", value=5)],
    )
    assert (parts.observed(lengths).decisions, parts.observed(lengths).counts) == (found.decisions, found.counts)
    assert parts.observed(lengths).levels == [Event(layer=2, what="load", value=3)]
    assert whole.digests({0: 2, 1: 1}) != whole.digests(lengths)


def test_one_changed_decision_changes_the_digest():
    one, other = Record(), Record()
    for record, last in ((one, 4), (other, 5)):
        record.of([0], [0, 2], [0]).decided(0, "selection", torch.tensor([[0, 1], [2, last]]))
    assert one.digests({0: 2}) != other.digests({0: 2})
    assert one.digests({0: 1}) == other.digests({0: 1})


def test_nothing_watched_is_nothing_said():
    assert Record().observed({0: 3}) == Observed()
