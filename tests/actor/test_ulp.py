from __future__ import annotations

import pytest
import torch

from samebits.actor.ulp import one_ulp_away, patterns
from samebits.errors import MachineError


@pytest.mark.parametrize(
    ("dtype", "ulp"), [(torch.bfloat16, 2.0**-7), (torch.float32, 2.0**-23)], ids=["bfloat16", "float32"]
)
def test_every_element_is_the_next_value_away_from_zero(dtype, ulp):
    weight = torch.tensor([1.0, -1.0, 2.0, 2 - ulp, 0.0, -0.0], dtype=dtype)
    before = patterns(weight).clone()
    with one_ulp_away("w", weight):
        assert weight[:4].tolist() == [1 + ulp, -1 - ulp, 2 + 2 * ulp, 2.0]
        assert weight[4].item() > 0 > weight[5].item()
    assert torch.equal(patterns(weight), before)


def test_the_weight_comes_back_when_the_probe_fails():
    weight = torch.tensor([1.0, -0.0], dtype=torch.bfloat16)
    before = patterns(weight).clone()
    with pytest.raises(ZeroDivisionError), one_ulp_away("w", weight):
        raise ZeroDivisionError
    assert torch.equal(patterns(weight), before)


def test_the_largest_number_has_no_next():
    weight = torch.tensor([torch.finfo(torch.bfloat16).max], dtype=torch.bfloat16)
    with pytest.raises(MachineError) as caught, one_ulp_away("w", weight):
        pytest.fail("the probe ran")
    assert str(caught.value) == (
        "probe of w: found an element without a finite next value; accepted: finite weights. "
        "Start the run again; if it recurs, the weights or the memory are damaged."
    )


def test_a_weight_that_something_else_wrote_to_is_an_error():
    weight = torch.tensor([1.0], dtype=torch.bfloat16)
    with pytest.raises(MachineError) as caught, one_ulp_away("w", weight):
        weight.fill_(5.0)
    assert caught.value.found == "a weight that changed while it was probed"
    assert weight.tolist() == [1.0]
