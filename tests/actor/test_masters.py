from __future__ import annotations

import pytest
import torch

from samebits.actor.masters import Masters
from samebits.errors import MachineError


def weights():
    return {
        "a": torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
        "b": torch.tensor([3.0], dtype=torch.bfloat16),
        "table": torch.tensor([9.0], dtype=torch.bfloat16),
    }


def test_masters_are_the_deployed_weights_in_fp32():
    masters = Masters(weights(), {"table": "a lookup table"})
    assert {name: (master.dtype, master.tolist()) for name, master in masters.master.items()} == {
        "a": (torch.float32, [1.0, 2.0]),
        "b": (torch.float32, [3.0]),
        "table": (torch.float32, [9.0]),
    }
    assert masters.trained == ["a", "b"]
    assert not masters.deployed["table"].requires_grad


def test_the_given_weights_are_copied():
    given = weights()
    masters = Masters(given, {})
    masters.master["a"].fill_(5.0)
    masters.deploy()
    assert masters.deployed["a"].tolist() == [5.0, 5.0]
    assert given["a"].tolist() == [1.0, 2.0]


def test_fp32_weights_have_two_copies_too():
    masters = Masters({"a": torch.tensor([1.0])}, {})
    masters.master["a"].fill_(5.0)
    assert masters.deployed["a"].tolist() == [1.0]


def test_gradients_of_several_packs_add_up_in_fp32():
    masters = Masters(weights(), {"table": "a lookup table"})
    for scale in (1.0, 2.0**-10):  # bf16 has 8 bits: 1 + 2^-10 is lost in it
        (masters.deployed["a"].float().sum() * scale + masters.deployed["b"].float().sum()).backward()
    assert [gradient.tolist() for gradient in masters.gradients()] == [[1 + 2.0**-10] * 2, [2.0]]
    assert masters.deployed["a"].grad is None


def test_forgotten_gradients_do_not_come_back():
    masters = Masters(weights(), {"b": "not used", "table": "a lookup table"})
    masters.deployed["a"].float().sum().backward()
    masters.forget_gradients()
    (masters.deployed["a"].float().sum() * 3).backward()
    assert masters.gradients()[0].tolist() == [3.0, 3.0]


def test_deploy_rounds_to_nearest_even():
    masters = Masters(weights(), {})
    masters.master["a"].copy_(torch.tensor([1 + 2.0**-8, 1 + 3 * 2.0**-8]))  # halfway between neighbours
    masters.deploy()
    assert masters.deployed["a"].tolist() == [1.0, 1 + 4 * 2.0**-8]


def test_a_trained_tensor_without_gradient_is_an_error():
    masters = Masters(weights(), {"table": "a lookup table"})
    masters.deployed["a"].float().sum().backward()
    with pytest.raises(MachineError) as caught:
        masters.gradients()
    assert str(caught.value) == (
        "gradient of b: found none (1 of 2 tensors); accepted: a gradient for every tensor that is not frozen. "
        "Run the training forward, or have the family declare the tensor frozen with a reason."
    )
