from __future__ import annotations

from samebits.replay.differences import of_patterns, of_values


def test_the_first_differing_token_of_each_trajectory_is_named() -> None:
    recorded = {4: [1, 2, 3], 6: [7, None], 8: [5]}
    found = [[1, 9, 8], [7, 7], [5]]
    shown = [str(one) for one in of_patterns("train", 3, {4: 10, 6: 20, 8: 30}, recorded, found)]
    assert shown == [
        "round 3, trajectory 4, position 11: train: recorded 0x00000002, found 0x00000009",
        "round 3, trajectory 6, position 21: train: recorded nothing, found 0x00000007",
    ]


def test_another_number_of_tokens_differs() -> None:
    (one,) = of_patterns("rollout", 0, {0: 5}, {0: [1, 2]}, [[1]])
    assert one.to_dict() == {"where": "round 0, trajectory 0: rollout", "recorded": "2 tokens", "found": "1 tokens"}


def test_values_that_are_missing_on_either_side_differ() -> None:
    shown = [str(one) for one in of_values("version 2", {"a": "1", "b": "2"}, {"b": "3", "c": "4"})]
    assert shown == [
        "version 2: a: recorded 1, found nothing",
        "version 2: b: recorded 2, found 3",
        "version 2: c: recorded nothing, found 4",
    ]
