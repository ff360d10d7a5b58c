"""A digest must change with anything that a tensor is, and with nothing else."""

from __future__ import annotations

import struct

import pytest
import torch
from blake3 import blake3

from samebits.integrity import Difference, compare, digests, tensor_digest


def test_known_vector():
    # Header and elements spelled out by hand: 1.0, −2.0, 0.0, 3.5 as bf16 is 0x3f80, 0xc000, 0x0000, 0x4060.
    written = b"samebits.tensor.v1\nbfloat16\n2,2\n" + struct.pack("<4H", 0x3F80, 0xC000, 0x0000, 0x4060)
    expected = "blake3:" + blake3(written).hexdigest()
    assert expected == "blake3:ba15e77ea740e3f0979a12319f7abb7225124e545eb0877764c8c33f7cc63e98"
    assert tensor_digest(torch.tensor([[1.0, -2.0], [0.0, 3.5]], dtype=torch.bfloat16)) == expected


def test_scalar_has_an_empty_shape():
    expected = "blake3:" + blake3(b"samebits.tensor.v1\nint64\n\n" + struct.pack("<q", 7)).hexdigest()
    assert tensor_digest(torch.tensor(7)) == expected


def test_empty_tensor():
    expected = "blake3:" + blake3(b"samebits.tensor.v1\nfloat32\n0,3\n").hexdigest()
    assert tensor_digest(torch.empty(0, 3)) == expected


BASE = torch.arange(6, dtype=torch.float32)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(BASE.view(torch.int32), id="dtype, same bytes"),
        pytest.param(BASE.view(2, 3), id="shape, same bytes"),
        pytest.param(BASE.view(6, 1), id="rank, same bytes"),
        pytest.param(
            BASE.view(torch.int32).bitwise_xor(torch.tensor([0, 0, 0, 0, 0, 1])).view(torch.float32), id="ulp"
        ),
        pytest.param(torch.tensor([-0.0, 1, 2, 3, 4, 5]), id="negative zero"),
        pytest.param(BASE.flip(0), id="order"),
    ],
)
def test_changes_with(other):
    assert tensor_digest(other) != tensor_digest(BASE)


def test_nan_payloads_differ():
    quiet, payload = torch.tensor([0x7FC00000, 0x7FC00001], dtype=torch.int32).view(torch.float32).split(1)
    assert tensor_digest(quiet) != tensor_digest(payload)
    assert tensor_digest(quiet) == tensor_digest(quiet.clone())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.bool])
def test_does_not_depend_on_layout_or_alignment(dtype):
    plain = torch.arange(24).remainder(3).view(4, 6).to(dtype)
    wanted = tensor_digest(plain)
    columns = torch.empty(6, 4, dtype=dtype).T
    columns.copy_(plain)
    shifted = torch.empty(25, dtype=dtype)[1:].view(4, 6)
    shifted.copy_(plain)
    assert not columns.is_contiguous()
    assert tensor_digest(columns) == wanted
    assert tensor_digest(shifted) == wanted
    assert tensor_digest(plain.clone().requires_grad_(dtype.is_floating_point)) == wanted


def test_conjugate_is_resolved():
    value = torch.tensor([1 + 2j])
    assert tensor_digest(value.conj()) == tensor_digest(torch.tensor([1 - 2j]))


@pytest.mark.parametrize("tensor", [torch.eye(2).to_sparse(), torch.empty(2, device="meta")], ids=["sparse", "meta"])
def test_refuses_what_has_no_dense_data(tensor):
    with pytest.raises(TypeError, match="a digest is taken of a dense tensor with data, not of"):
        tensor_digest(tensor)


def test_many_tensors_whatever_the_threads():
    large = torch.arange(400_000, dtype=torch.float32)  # 1.6 MB: hashed by all threads
    tensors = {"z": large, "a": BASE, "m": large.to(torch.bfloat16), "b": BASE.to(torch.float64)}
    one = digests(tensors, threads=1)
    assert list(one) == ["z", "a", "m", "b"]
    assert one == {name: tensor_digest(tensor) for name, tensor in tensors.items()}
    assert digests(tensors, threads=2) == one
    assert digests({}) == {}


def test_compare_lists_every_difference():
    sent = {"a": "blake3:1", "b": "blake3:2", "c": "blake3:3"}
    assert compare(sent, dict(reversed(sent.items()))) == []
    found = compare(sent, {"c": "blake3:4", "d": "blake3:5", "a": "blake3:1"})
    assert found == [
        Difference(tensor="b", kind="missing", sent="blake3:2", received=""),
        Difference(tensor="c", kind="different", sent="blake3:3", received="blake3:4"),
        Difference(tensor="d", kind="unexpected", sent="", received="blake3:5"),
    ]
    assert [str(difference) for difference in found] == [
        "b: sent as blake3:2, not received",
        "c: sent as blake3:3, received as blake3:4",
        "d: received as blake3:5, never sent",
    ]
