"""FP8 against float64, and what must not change on the way through a page."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from samebits.ops import fp8, open_op_set
from samebits.ops.fp8 import Fp8Format, Fp8Weight
from samebits.ops.rows import Fp8Rows, rounded

UE8M0 = Fp8Format(block=32, scale="ue8m0")
FLOAT32 = Fp8Format(block=32, scale="float32")
GRID = np.sort(torch.arange(256, dtype=torch.uint8).view(fp8.E4M3).double().numpy())
GRID = np.unique(GRID[np.isfinite(GRID)])


def nearest_even(x):
    """float64 to the E4M3 grid, ties to the even pattern."""
    above = np.searchsorted(GRID, x).clip(1, len(GRID) - 1)
    low, high = GRID[above - 1], GRID[above]
    even = torch.from_numpy(low).to(fp8.E4M3).view(torch.uint8).numpy() % 2 == 0
    return np.where((x - low < high - x) | ((x - low == high - x) & even), low, high)


def reference_scale(amax, form):
    ratio = max(amax, 1e-4) / 448
    return 2.0 ** math.ceil(math.log2(ratio)) if form.scale == "ue8m0" else float(np.float32(ratio))


@pytest.mark.parametrize("form", [UE8M0, FLOAT32], ids=["ue8m0", "float32"])
def test_activations_against_float64(form):
    x = (torch.randn(40, 128, generator=torch.Generator().manual_seed(0)) * 3).bfloat16()
    x[0] = 0
    x[1, :32] = 1e-6
    values, scales = fp8.quantise(x, form)
    for row, block in np.ndindex(40, 4):
        exact = x[row, 32 * block : 32 * block + 32].double().numpy()
        scale = reference_scale(np.float32(np.abs(exact).max()), form)
        assert scales[row, block].item() == pytest.approx(scale, rel=1e-7 if form is FLOAT32 else 0)
        # The quotient is rounded to fp32 first; with plain scales that decides near midpoints.
        quotient = np.float32(exact / scales[row, block].item()).astype(np.float64)
        expected = nearest_even(quotient) * scales[row, block].item()
        found = values[row, 32 * block : 32 * block + 32].double().numpy()
        np.testing.assert_allclose(found, expected, rtol=0 if form is UE8M0 else 1e-7, atol=0)
    assert values.dtype == (torch.bfloat16 if form is UE8M0 else torch.float32)


@pytest.mark.parametrize("form", [UE8M0, FLOAT32], ids=["ue8m0", "float32"])
def test_weights_have_a_scale_for_each_square(form):
    weight = torch.randn(3, 64, 96, generator=torch.Generator().manual_seed(1)) * 0.02
    values, scales = fp8.quantise_weight(weight, form)
    assert scales.shape == (3, 2, 3)
    assert scales.dtype == form.scale_dtype
    square = weight[2, 32:, 64:].double().numpy()
    scale = reference_scale(np.abs(square).max(), form)
    assert scales[2, 1, 2].float().item() == pytest.approx(scale, rel=1e-6)
    # Divided in fp32, so a value within an ulp of a midpoint could go the other way; none of these does.
    np.testing.assert_array_equal(values[2, 32:, 64:].double().numpy(), nearest_even(square / scale))
    error = (fp8.dequantise_weight(values, scales, form, torch.float32) - weight).abs().max()
    assert 0 < error < 0.1 * 2**-4 * 1.01


def test_scales_are_rounded_up_never_down():
    x = torch.tensor([1.0, 1.0000001, 1.9999999, 2.0, 2.0000002, 448 * 2.0**-20])
    assert fp8.power_of_two_above(x).tolist() == [1.0, 2.0, 2.0, 2.0, 4.0, 2.0**-11]


def test_a_value_that_rounds_past_the_largest_is_saturated():
    assert fp8.round_to(torch.tensor([470.0, -1e9, 448.0]), torch.ones(1)).float().tolist() == [448.0, -448.0, 448.0]


def test_a_table_decodes_every_pattern_as_torch_does():
    patterns = torch.arange(256, dtype=torch.uint8).view(fp8.E4M3)
    torch.testing.assert_close(fp8.decode(patterns, torch.float32), patterns.float(), rtol=0, atol=0, equal_nan=True)


def test_a_refit_in_place_is_seen_by_the_next_forward():
    values, scales = fp8.quantise_weight(torch.ones(32, 32), UE8M0)
    weight = Fp8Weight(values, scales, UE8M0)
    assert fp8.deployed(weight)[0, 0] == 1
    assert fp8.deployed(weight) is fp8.deployed(weight)
    values.copy_(fp8.quantise_weight(torch.full((32, 32), 1.5), UE8M0)[0])
    assert fp8.deployed(weight)[0, 0] == 1.5
    scales.copy_((scales.float() * 2).to(fp8.E8M0))
    assert fp8.deployed(weight)[0, 0] == 3


@pytest.mark.parametrize("form", [UE8M0, FLOAT32], ids=["ue8m0", "float32"])
@pytest.mark.parametrize("name", ["native", "plain"])
def test_gradients_pass_straight_through(name, form):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(5, 64, generator=generator).bfloat16().requires_grad_()
    trained = torch.randn(32, 64, generator=generator).bfloat16().requires_grad_()
    weight = Fp8Weight(*fp8.quantise_weight(trained, form), form, trained)
    quantised, _ = fp8.quantise(x, form)
    ops = open_op_set(name)
    out = ops.fp8_linear(quantised, weight, torch.bfloat16)
    out.backward(torch.ones_like(out))
    matrix = fp8.deployed(weight).float()
    torch.testing.assert_close(x.grad.float(), matrix.sum(0).expand(5, -1), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(
        trained.grad.float(), quantised.detach().float().sum(0).expand(32, -1), rtol=1e-2, atol=1e-2
    )
    assert trained.grad.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("form", "size"),
    [
        (Fp8Rows(width=512, rope=64, block=64), 584),
        (Fp8Rows(width=128, rope=16, block=16), 152),
        (Fp8Rows(width=128, rope=0, block=128, wide_scales=True), 132),
    ],
    ids=["published", "small", "index"],
)
def test_a_rounded_row_comes_back_from_a_page_unchanged(form, size):
    assert form.bytes == size
    rows = torch.randn(500, form.width, generator=torch.Generator().manual_seed(3)).bfloat16()
    rows[0], rows[1], rows[2] = 0, 224.0, 1e-7
    once = rounded(rows, form)
    pages = form.encode(once)
    assert pages.shape == (500, size)
    assert pages.dtype == torch.uint8
    assert torch.equal(form.decode(pages).view(torch.int16), once.view(torch.int16))
    assert torch.equal(once[:, form.width - form.rope :], rows[:, form.width - form.rope :])
    assert not torch.equal(once, rows)
    assert torch.equal(form.decode(torch.zeros(1, size, dtype=torch.uint8)), torch.zeros(1, form.width).bfloat16())
