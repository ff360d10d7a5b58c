"""The gate's list and the oracle's are stated apart from each other, and must name the same parameters."""

from __future__ import annotations

import json

import pytest

from samebits.gate.request import RULES
from samebits.oracle.sampling import NEUTRAL, STATED, nonconforming
from samebits.recipe import CONFORMING


def test_the_same_names() -> None:
    assert set(RULES) == {*STATED, *NEUTRAL}


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("watermarking", False, None),
        ("watermarking", None, "watermarking is null, not false"),
        ("watermarking", 0, "watermarking is 0, not false"),
        ("logprob_token_ids", [1], "logprob_token_ids is [1], not nothing"),
        ("skip_clone", True, None),
        ("stream_interval", 7, None),
        ("output_text_buffer_length", 1, "output_text_buffer_length is 1, not 0"),
    ],
)
def test_what_vllm_names_beside_the_rest(name: str, value: object, fault: str | None) -> None:
    assert nonconforming(json.dumps({**CONFORMING, name: value})) == (() if fault is None else (fault,))
