"""The op set over an engine's primitives, these being ordinary torch here."""

from __future__ import annotations

import pytest
import torch

from ops.borrowed import borrowed
from ops.dense import OPS, arguments, check_against_float64
from ops.packed import Packed
from ops.rows import DTYPES, normal, same_bits
from samebits.ops import open_op_set
from samebits.ops.borrowed import formulas
from samebits.ops.borrowed.gradients import LOGIT_ROWS
from samebits.ops.opset import KEYS, VALUES
from samebits.ops.rope import Rope, exact_tables

in_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["bf16", "fp32"])


@pytest.mark.parametrize("op", OPS)
@in_dtype
def test_values_and_gradients_are_near_float64(op, dtype):
    check_against_float64(borrowed(), op, dtype)


@pytest.mark.parametrize("op", OPS)
def test_backward_is_the_derivative_of_forward(op):
    """Finite differences in float64, along one random direction."""
    call = OPS[op][0]
    assert torch.autograd.gradcheck(lambda *x: call(borrowed(), *x), arguments(op, torch.float64), fast_mode=True)


def test_several_weights_are_one_product_and_its_views():
    ops = borrowed()
    x, first, second = (normal(*shape, dtype=torch.float32, seed=i) for i, shape in enumerate([(5, 8), (6, 8), (2, 8)]))
    one, two = ops.linears(x, [first, second])
    assert ops.primitives.calls == [("linear", 2)]
    assert (one.shape, two.shape) == ((5, 6), (5, 2))
    assert one.untyped_storage().data_ptr() == two.untyped_storage().data_ptr()


def test_a_weight_without_a_gradient_costs_none():
    ops = borrowed()
    x, frozen, trained = (normal(4, 4, dtype=torch.float32, seed=i) for i in range(3))
    trained.requires_grad_()
    torch.cat(ops.linears(x, [frozen, trained])).sum().backward()
    assert frozen.grad is None
    torch.testing.assert_close(trained.grad, torch.ones(4, 4) @ x)


def test_the_fused_norm_is_of_the_sum_before_it_is_rounded():
    """1 + 2^-8 is 1 in bf16 but not in the norm: what vLLM's native ``fused_add_rms_norm`` computes."""
    x = torch.tensor([[1.0, 1.0, 1.0, 1.0]], dtype=torch.bfloat16)
    residual = torch.tensor([[2.0**-9, 2.0**-9, 2.0**-9, 4.0]], dtype=torch.bfloat16)
    weight = torch.ones(4, dtype=torch.bfloat16)
    normed, total = borrowed().add_rms_norm(x, residual, weight, 0.0)
    assert total.tolist() == [[1.0, 1.0, 1.0, 5.0]]
    exact = (x.float() + residual.float()) / (x.float() + residual.float()).square().mean().sqrt()
    assert same_bits(normed, exact.bfloat16())
    many = [normal(64, 96, dtype=torch.bfloat16, seed=i) for i in (1, 2)]
    ones = torch.ones(96, dtype=torch.bfloat16)
    fused, apart = (open_.add_rms_norm(*many, ones, 1e-6)[0] for open_ in (borrowed(), open_op_set("native")))
    assert not same_bits(fused, apart)


def test_rope_tables_are_the_engines():
    """Rounded to the model's dtype, cosines first; fp32 angles, so near the exact ones and no more."""
    rope = Rope(positions=64, size=16, theta=1e4)
    cos, sin = borrowed().rope_tables(torch.tensor([3, 3, 63]), rope, torch.bfloat16)
    assert cos.dtype == sin.dtype == torch.bfloat16
    assert cos.shape == sin.shape == (3, 8)
    table = formulas.rope_table(rope, torch.float32, torch.device("cpu"))
    assert torch.equal(cos[2], table[63, :8].bfloat16())
    assert torch.equal(sin[2], table[63, 8:].bfloat16())
    torch.testing.assert_close(table, torch.cat(exact_tables(rope), dim=1), rtol=0, atol=1e-5)


def test_rotation_rounds_every_product_to_the_models_dtype():
    x, cos, sin = (torch.tensor([value], dtype=torch.bfloat16) for value in ([[1.0, 3.0]], [1 / 3], [2 / 3]))
    rotated = borrowed().rope(x, cos, sin)
    first = (1.0 * float(cos)) - torch.tensor(3.0 * float(sin)).bfloat16()
    assert rotated[0, 0, 0] == first.bfloat16()
    assert rotated.dtype == torch.bfloat16


def test_logits_of_many_rows_are_taken_in_parts():
    rows = LOGIT_ROWS + 3
    logits = normal(rows, 7, dtype=torch.float32, seed=1).requires_grad_()
    ids = torch.arange(rows) % 7
    borrowed().token_logprobs(logits, ids).sum().backward()
    expected = torch.nn.functional.one_hot(ids, 7) - logits.detach().softmax(-1)
    torch.testing.assert_close(logits.grad, expected)


def test_a_sequence_that_began_earlier_is_not_computed():
    before = Packed([3], 16)
    rows = normal(3, 1, 16, dtype=torch.float32, seed=1)
    for name in (KEYS, VALUES):
        before.store(0, name, rows)
    with pytest.raises(ValueError, match=r"^op set 'torch' computes whole sequences, not one that begins at \[3\]$"):
        borrowed().attention(rows, Packed([3], 16, before=before), 0)


def test_only_dense_families_are_computed():
    assert borrowed().model_types == {"llama", "qwen3"}
