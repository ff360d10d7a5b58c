from __future__ import annotations

from samebits.ops.native.query_tiles import cut


def test_a_decode_step_is_one_tile_a_sequence():
    tiles = cut([0, 1, 2, 3], [63, 64, 200])
    assert tiles.sequence.tolist() == [0, 1, 2]
    assert tiles.span.tolist() == [0, 1, 3]
    assert tiles.rows.tolist() == [[0] * 8, [1] * 8, [2] * 8]
    assert tiles.positions.tolist() == [[63] * 8, [64] * 8, [200] * 8]
    assert tiles.used.tolist() == [1, 1, 1]
    assert tiles.places.tolist() == [0, 8, 16]


def test_tiles_end_with_their_sequence_and_with_their_span():
    tiles = cut([0, 10, 10, 15], [0, 5, 61])
    assert tiles.sequence.tolist() == [0, 0, 2, 2]
    assert tiles.span.tolist() == [0, 0, 0, 1]
    assert tiles.used.tolist() == [8, 2, 3, 2]
    assert tiles.rows.tolist() == [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [8, 9, 9, 9, 9, 9, 9, 9],
        [10, 11, 12, 12, 12, 12, 12, 12],
        [13, 14, 14, 14, 14, 14, 14, 14],
    ]
    assert tiles.positions.tolist()[2:] == [
        [61, 62, 63, 63, 63, 63, 63, 63],
        [64, 65, 65, 65, 65, 65, 65, 65],
    ]
    assert tiles.places.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 18, 24, 25]


def test_parts_hold_one_span_and_few_slots():
    tiles = cut([0, 1, 2, 3, 4], [70, 3, 66, 127])
    assert [(slots, part.tolist()) for slots, part in tiles.parts(256)] == [(64, [1]), (128, [0, 2]), (128, [3])]
