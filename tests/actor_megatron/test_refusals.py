"""What cannot be, each with its reason; Megatron's own reasons are asked of Megatron."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec

import pytest
import torch

from actor import tiny
from samebits.actor.megatron import library
from samebits.actor.worker import ActorWorker
from samebits.errors import GateError, InputError, MachineError
from samebits.models import save_folder, seeded_config, seeded_weights
from samebits.recipe import load
from samebits.traced import Target

from .worlds import GATE, SETTINGS, megatron

ON_CPU = pytest.mark.skipif(torch.cuda.is_available(), reason="asks what Megatron does without CUDA")


def test_without_megatron(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(library, "installed", absent)
    with pytest.raises(MachineError) as caught:
        library.require()
    assert str(caught.value) == (
        "megatron-core: found not installed; accepted: the release that the row pins. "
        'Install the row\'s requirements (nox does), or choose actor.kind = "native".'
    )


def test_a_megatron_that_does_not_import(monkeypatch):
    """Release 0.19 on a machine without Triton."""

    def fails(_):
        raise ModuleNotFoundError("No module named 'triton'")

    monkeypatch.setattr(library, "installed", lambda _: "0.19.2")
    monkeypatch.setattr(library.importlib, "import_module", fails)
    with pytest.raises(MachineError) as caught:
        library.require()
    assert str(caught.value) == (
        "megatron-core 0.19.2: found an import that fails: No module named 'triton'; accepted: megatron.core imports. "
        "Install what it asks for; release 0.19 needs Triton even to import, 0.16.1 does not."
    )


def test_experts():
    """Refused before Megatron is even looked for."""
    model = load("ds4-small")[0].model
    with pytest.raises(InputError) as caught:
        megatron(model)
    assert str(caught.value) == (
        "actor.kind: found 'megatron' for a model of type 'deepseek_v4'; accepted: llama or qwen3: experts do not go "
        'through Megatron\'s router and dispatcher yet. Choose a dense recipe, or actor.kind = "native".'
    )


@pytest.mark.megatron
def test_batch_invariant_mode_is_refused_with_megatrons_own_reason():
    one = torch.eye(3)
    with pytest.raises(GateError) as caught:
        megatron(tiny.model(), batch_invariant_mode=True)
    assert caught.value.field == "actor.batch_invariant_mode"
    if find_spec("triton") is None:
        assert caught.value.found == "True; Megatron cannot load its kernels: No module named 'triton'"
    elif find_spec("transformer_engine") is None:
        assert caught.value.found == "True; Megatron began and failed: No module named 'transformer_engine'"
    assert torch.equal(one @ one, one), "nothing of it stayed switched on"


@pytest.mark.megatron
def test_a_worker_refuses_and_its_live_actor_stays(tmp_path):
    model = tiny.model()
    save_folder(tmp_path, seeded_config(model), seeded_weights(model))
    handlers = ActorWorker().handlers()

    def construct(**settings):
        return handlers["construct"](
            {
                "model_folder": str(tmp_path),
                "op_set": "native",
                "settings": {**SETTINGS, **UNSAID, **settings},
                "max_model_len": tiny.SLOTS,
                "gate": GATE,
                "switches": {},
            },
            lambda **_: None,
        )

    assert construct().settings["kind"] == "megatron"
    for settings, field in (
        ({"tensor_model_parallel_size": 2}, "actor.tensor_model_parallel_size"),
        ({"sequence_parallel": True}, "actor.sequence_parallel"),
        ({"batch_invariant_mode": True}, "actor.batch_invariant_mode"),
        ({"kind": "native"}, "actor.kind"),
    ):
        with pytest.raises(GateError) as caught:
            construct(**settings)
        assert caught.value.field == field
    trajectory = {"request_id": "r", "token_ids": [1, 2, 3], "prompt_length": 1, "group": 0}
    computed = handlers["recompute"]({"trajectories": [trajectory], "version": 0}, lambda **_: None)
    assert computed.sealed.tokens == 2


UNSAID = {
    "tensor_model_parallel_size": 1,
    "pipeline_model_parallel_size": 1,
    "context_parallel_size": 1,
    "sequence_parallel": False,
    "batch_invariant_mode": False,
}


@ON_CPU
@pytest.mark.megatron
class TestMegatronAsksForCuda:
    """Why the kit's optimizer stands under Megatron's model on the CPU row."""

    def test_its_schedule(self):
        library.require()
        from megatron.core.pipeline_parallel.schedules import forward_backward_no_pipelining  # noqa: PLC0415

        actor = megatron(tiny.model())
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            forward_backward_no_pipelining(
                forward_step_func=lambda *_: None,
                data_iterator=None,
                model=actor._model,
                num_microbatches=1,
                seq_length=4,
                micro_batch_size=1,
            )

    def test_its_distributed_data_parallel(self):
        library.require()
        from megatron.core.distributed import (  # noqa: PLC0415
            DistributedDataParallel,
            DistributedDataParallelConfig,
        )

        actor = megatron(tiny.model())
        with library.quiet(), pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            DistributedDataParallel(actor._model.config, DistributedDataParallelConfig(), actor._model)

    def test_its_optimizer(self):
        library.require()
        from megatron.core.optimizer import OptimizerConfig  # noqa: PLC0415
        from megatron.core.optimizer.optimizer import Float16OptimizerWithFloat16Params  # noqa: PLC0415

        adamw = torch.optim.AdamW(megatron(tiny.model())._model.parameters())
        with library.quiet(), pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            Float16OptimizerWithFloat16Params(adamw, OptimizerConfig(bf16=True), None, lambda *_: None)


@pytest.mark.megatron
def test_the_ops_inside_megatron_are_not_traced():
    actor = megatron(tiny.model())
    with pytest.raises(InputError) as caught:
        actor.trace("recompute", tiny.trajectories(), 0, Target(sequence=0, token=6))
    assert (caught.value.field, caught.value.found) == ("actor.trace", "an actor inside Megatron-core")
