from __future__ import annotations

import pytest
import torch

from samebits.actor.masters import Masters
from samebits.actor.optimizer import Optimizer
from samebits.errors import MachineError
from samebits.recipe.model import Actor

from .tiny import SETTINGS


def world(seed=0):
    generator = torch.Generator().manual_seed(seed)
    weights = {name: torch.randn(size, generator=generator).bfloat16() for name, size in (("a", (40, 33)), ("b", (7,)))}
    gradients = [
        {name: torch.randn(weight.shape, generator=generator).bfloat16() for name, weight in weights.items()}
        for _ in range(3)
    ]
    return weights, gradients


def backward(masters, gradients):
    for name, gradient in gradients.items():
        (masters.deployed[name] * gradient).sum().backward()


@pytest.mark.parametrize("max_norm", [1.0, 1e6], ids=["clipped", "not clipped"])
def test_a_step_is_torch_adamw_on_the_same_fp32(max_norm):
    weights, rounds = world()
    masters = Masters(weights, {})
    optimizer = Optimizer(masters, Actor(**{**SETTINGS, "max_grad_norm": max_norm}))
    expected = {name: weight.float().requires_grad_() for name, weight in weights.items()}
    adamw = torch.optim.AdamW(expected.values(), lr=1e-2, betas=(0.9, 0.999), weight_decay=0.1, fused=True)
    for gradients in rounds:
        backward(masters, gradients)
        norm = optimizer.step()
        for name, parameter in expected.items():
            parameter.grad = gradients[name].float()
        assert norm == torch.nn.utils.clip_grad_norm_(expected.values(), max_norm).item()
        adamw.step()
        for name, parameter in expected.items():
            assert torch.equal(masters.master[name].view(torch.int32), parameter.detach().view(torch.int32))
            assert torch.equal(masters.deployed[name].detach(), parameter.detach().bfloat16())


def test_a_step_against_float64():
    weights, (gradients, *_) = world()
    masters = Masters(weights, {})
    optimizer = Optimizer(masters, Actor(**{**SETTINGS, "max_grad_norm": 1e6}))
    backward(masters, gradients)
    optimizer.step()
    for name, weight in weights.items():
        gradient = gradients[name].double()
        # After one step both moments' bias corrections leave the gradient itself.
        expected = weight.double() * (1 - 1e-2 * 0.1) - 1e-2 * gradient / (gradient.abs() + 1e-8)
        torch.testing.assert_close(masters.master[name].double(), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_is_an_error_and_steps_nothing(value):
    weights, (gradients, *_) = world()
    masters = Masters(weights, {})
    optimizer = Optimizer(masters, Actor(**SETTINGS))
    gradients["b"][3] = value
    backward(masters, gradients)
    with pytest.raises(MachineError) as caught:
        optimizer.step()
    assert str(caught.value) == (
        "gradient of b: found not finite (1 of 2 tensors); accepted: finite gradients. "
        "Nothing was stepped. Lower actor.learning_rate, or look for the op that overflows."
    )
    for name, weight in weights.items():
        assert torch.equal(masters.master[name], weight.float())
        assert torch.equal(masters.deployed[name].detach(), weight)
