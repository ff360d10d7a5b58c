"""How the kernels of vLLM's CUDA build are called; the kernels themselves need a GPU (``test_vllm_gpu``)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from ops.rows import normal
from samebits.errors import MachineError
from samebits.ops.vllm import opening
from samebits.ops.vllm.primitives import CudaPrimitives

BF16 = torch.bfloat16


@pytest.fixture
def asked():
    return {}


@pytest.fixture
def primitives(asked):
    """Over kernels that write down what they were asked."""

    def linear(x, weight):
        asked["linear"] = weight
        return x @ weight.t()

    def attention(**given):
        asked["attention"] = given
        return given["q"]

    def logprobs(logits, token_ids):
        asked["logprobs"] = (logits.dtype, token_ids.tolist())
        return logits.float().log_softmax(-1).gather(1, token_ids)

    kernels = SimpleNamespace(
        linear_batch_invariant=linear, flash_attn_varlen_func=attention, compute_token_logprobs=logprobs
    )
    return lambda batch_invariant: CudaPrimitives(kernels, torch.device("cpu"), batch_invariant=batch_invariant)


@pytest.mark.parametrize(("batch_invariant", "splits"), [(True, 1), (False, 0)])
def test_attention_is_flash_attention_3_over_packed_sequences(primitives, asked, batch_invariant, splits):
    query, keys = normal(9, 4, 16, dtype=BF16, seed=1), normal(9, 2, 16, dtype=BF16, seed=2)
    values = normal(9, 100, dtype=BF16, seed=3)[:, 60:92].view(9, 2, 16)
    assert not values.is_contiguous()
    found = primitives(batch_invariant).attention(query, keys, values, [0, 3, 9])
    assert found is query
    given = asked["attention"]
    assert all(given[name].is_contiguous() for name in "qkv")
    assert torch.equal(given["v"], values)
    assert given["cu_seqlens_q"].tolist() == given["cu_seqlens_k"].tolist() == [0, 3, 9]
    assert given["cu_seqlens_q"].dtype == torch.int32
    settings = {name: value for name, value in given.items() if name not in {"q", "k", "v"} and "cu_" not in name}
    assert settings == {
        "max_seqlen_q": 6,
        "max_seqlen_k": 6,
        "softmax_scale": 0.25,
        "causal": True,
        "fa_version": 3,
        "num_splits": splits,
    }


def test_several_weights_are_one_product(primitives, asked):
    x, first, second = (normal(n, 8, dtype=BF16, seed=n) for n in (5, 6, 2))
    assert primitives(True).linear(x, [first, second]).shape == (5, 8)
    assert torch.equal(asked["linear"], torch.cat((first, second)))
    assert primitives(True).linear(x, [first]).shape == (5, 6)
    assert asked["linear"] is first


def test_without_the_flag_products_are_torchs(primitives, asked):
    x, weight = normal(5, 8, dtype=BF16, seed=1), normal(6, 8, dtype=BF16, seed=2)
    assert torch.equal(primitives(False).linear(x, [weight]), torch.nn.functional.linear(x, weight))
    assert asked == {}


def test_logprobs_are_taken_of_logits_as_they_are(primitives, asked):
    logits = normal(3, 7, dtype=BF16, seed=1)
    found = primitives(True).token_logprobs(logits, torch.tensor([6, 0, 2]))
    assert found.shape == (3,)
    assert asked["logprobs"] == (BF16, [[6], [0], [2]])


def test_the_switch_is_all_that_the_two_descriptions_differ_in(primitives):
    aligned, control = (primitives(flag).describe() for flag in (True, False))
    assert aligned["attention"] == "vLLM's FlashAttention 3, varlen, one split of the keys"
    assert control["attention"] == "vLLM's FlashAttention 3, varlen, splits by its own heuristic"
    assert aligned["log_softmax"] == control["log_softmax"]
    assert {name for name in aligned if aligned[name] != control[name]} == {"aten", "attention", "linear"}


def test_a_process_has_one_mode(monkeypatch):
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "0")
    with pytest.raises(MachineError) as caught:
        opening._enter(batch_invariant=True)
    assert str(caught.value) == (
        "VLLM_BATCH_INVARIANT: found 0, in a process that is to compute with 1; accepted: one mode for each process. "
        "Start the actor in a process of its own, with the variable unset or equal to the switch."
    )
